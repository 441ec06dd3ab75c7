package sync

import (
	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
)

func (s *Storage) commands(sh *service.Shell) []*cobra.Command {
	cmd := &cobra.Command{Use: "sync", Short: "Manage Firefox Sync storage"}
	cmd.AddCommand(s.budget(sh))
	return []*cobra.Command{cmd}
}
