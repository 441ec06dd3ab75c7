package tokenserver

import (
	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
)

// commands returns only the command that the operations' commands are added to.
func (s *Accounts) commands(*service.Shell) []*cobra.Command {
	return []*cobra.Command{{Use: Name, Short: "Manage Firefox Sync accounts: access, data, and storage nodes"}}
}
