package tokenserver

import (
	"errors"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/tokenserver"
)

// commands returns the commands that are no operations: those with files.
func (s *Accounts) commands(sh *service.Shell) []*cobra.Command {
	c := &command{Shell: sh, state: s}
	accounts := &cobra.Command{Use: "accounts"}
	accounts.AddCommand(c.userExport(), c.userImport())
	cmd := &cobra.Command{Use: Name, Short: "Manage the accounts of Firefox Sync: who may sign in, their data, and storage nodes"}
	cmd.AddCommand(accounts)
	return []*cobra.Command{cmd}
}

// command is the state that the commands share.
type command struct {
	*service.Shell
	state *Accounts
}

var errDisabled = errors.New("accounts are disabled: set tokenserver.enabled = true")

// ready returns the open service.
func (s *Accounts) ready() (*tokenserver.Service, error) {
	if s.opened == nil {
		return nil, errDisabled
	}
	return s.opened, nil
}
