package tokenserver

import (
	"errors"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/tokenserver"
)

// commands returns the command that the operations' commands are added to.
func (s *Accounts) commands(*service.Shell) []*cobra.Command {
	return []*cobra.Command{{Use: Name, Short: "Manage the accounts of Firefox Sync: who may sign in, their data, and storage nodes"}}
}

var errDisabled = errors.New("accounts are disabled: set tokenserver.enabled = true")

// ready returns the open service.
func (s *Accounts) ready() (*tokenserver.Service, error) {
	if s.opened == nil {
		return nil, errDisabled
	}
	return s.opened, nil
}
