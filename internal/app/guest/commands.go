package guest

import (
	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
)

// commands returns only the command that the operations' commands are added to.
func (s *Guest) commands(*service.Shell) []*cobra.Command {
	return []*cobra.Command{{Use: Name, Short: "Manage guests: handoff keys, service tokens, tenants, events, old data, sessions"}}
}
