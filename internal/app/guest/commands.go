package guest

import (
	"errors"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
)

// commands returns the help of the commands, which are all operations.
func (s *Guest) commands(*service.Shell) []*cobra.Command {
	return []*cobra.Command{{Use: Name, Short: "Manage guests: handoff keys, service tokens, tenants, events, old data, sessions"}}
}

var errDisabled = errors.New("guest is disabled, or no server has been started on this data yet")

// ready returns the handoffs of the open service, if this process can use their keys.
func (s *Guest) ready() (*handoffParts, error) {
	if s.opened == nil || s.opened.handoffs == nil {
		return nil, errDisabled
	}
	return s.opened.handoffs, s.opened.handoffs.isSaved()
}

// parts returns the open parts of the service.
func (s *Guest) parts() (*parts, error) {
	if s.opened == nil {
		return nil, errDisabled
	}
	return s.opened, nil
}
