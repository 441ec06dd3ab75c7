package sync

import (
	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
)

// commands returns the command sync, which the operations' commands are added to.
func (s *Storage) commands(sh *service.Shell) []*cobra.Command {
	cmd := &cobra.Command{Use: "sync", Short: "Manage Firefox Sync storage"}
	cmd.AddCommand(s.budget(sh))
	return []*cobra.Command{cmd}
}
