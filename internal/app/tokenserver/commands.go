package tokenserver

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/tokenserver"
)

// commands returns subcommands of sync, where operators of Firefox Sync look for them.
func (s *Accounts) commands(sh *service.Shell) []*cobra.Command {
	c := &command{Shell: sh, state: s}
	user := &cobra.Command{Use: "user", Short: "Manage accounts and who may sign in"}
	user.AddCommand(c.userList(), c.userShow(), c.userDelete(), c.userAccess(tokenserver.Allowed), c.userAccess(tokenserver.Denied), c.userQuota(), c.userExport(), c.userImport())
	cmd := &cobra.Command{Use: "sync"}
	cmd.AddCommand(user)
	return []*cobra.Command{{Use: Name, Short: "Manage the accounts of Firefox Sync and its storage nodes"}, cmd}
}

// command is the state that the commands share.
type command struct {
	*service.Shell
	state *Accounts
}

var errDisabled = errors.New("accounts are disabled: set tokenserver.enabled = true")

// withService runs fn on the open service.
func (c *command) withService(fn func(ctx context.Context, s *tokenserver.Service, args []string) error) func(*cobra.Command, []string) error {
	return c.Run(func(ctx context.Context, args []string) error {
		if c.state.opened == nil {
			return errDisabled
		}
		return fn(ctx, c.state.opened, args)
	})
}

// withAccount runs fn on the account in the first argument.
func (c *command) withAccount(fn func(ctx context.Context, s *tokenserver.Service, a tokenserver.Account) error) func(*cobra.Command, []string) error {
	return c.withService(func(ctx context.Context, s *tokenserver.Service, args []string) error {
		a, err := s.ParseAccount(args[0])
		if err != nil {
			return err
		}
		return fn(ctx, s, a)
	})
}

// ready returns the open service.
func (s *Accounts) ready() (*tokenserver.Service, error) {
	if s.opened == nil {
		return nil, errDisabled
	}
	return s.opened, nil
}
