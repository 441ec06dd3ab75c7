package cli

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app"
	"holdfast/internal/tokenserver"
)

func (c *command) sync() *cobra.Command {
	cmd := &cobra.Command{Use: "sync", Short: "Firefox Sync: tokens, users, nodes and what fits into a commit"}
	user := &cobra.Command{Use: "user", Short: "Accounts and who may have one"}
	user.AddCommand(c.userList(), c.userShow(), c.userDelete(), c.userAccess(tokenserver.Allowed), c.userAccess(tokenserver.Denied))
	node := &cobra.Command{Use: "node", Short: "Storage nodes that accounts are spread over"}
	node.AddCommand(c.nodeList(), c.nodeAdd(), c.nodeDrain())
	cmd.AddCommand(c.token(), user, node, c.budget())
	return cmd
}

func (c *command) token() *cobra.Command {
	var t app.TokenRequest
	cmd := &cobra.Command{
		Use:   "token --uid N",
		Short: "Make a storage token, as the tokenserver would",
		Long: "Make a storage token with the server's master secret and print it as JSON: id and key sign\n" +
			"requests by Hawk, api_endpoint is the user's storage. No account is needed or made.",
		Example: "  holdfast sync token --uid 1\n" +
			"  holdfast sync token --uid 1 --fxa-uid 0123abcd --fxa-kid 0000000001234-qqo --duration 300",
		Args: cobra.NoArgs,
		RunE: c.with(func(_ context.Context, a *app.App, _ []string) error {
			made, err := a.Token(t)
			if err != nil {
				return err
			}
			return c.json(made)
		}),
	}
	f := cmd.Flags()
	f.Int64Var(&t.UID, "uid", 0, "the storage user")
	f.StringVar(&t.FxAUID, "fxa-uid", "", "the account's id at the accounts server")
	f.StringVar(&t.FxAKID, "fxa-kid", "", "the id of the account's keys")
	f.Int64Var(&t.Duration, "duration", 3600, "how long the token is good for, in seconds")
	_ = cmd.MarkFlagRequired("uid")
	return cmd
}

func (c *command) json(v any) error { return c.encode(v, "  ") }

// line prints JSON in a line of its own.
func (c *command) line(v any) error { return c.encode(v, "") }

func (c *command) encode(v any, indent string) error {
	e := json.NewEncoder(c.env.Stdout)
	e.SetIndent("", indent)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// moment prints milliseconds since 1970.
func moment(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return time.UnixMilli(ms).UTC().Format(time.RFC3339)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// accounts is the tokenserver's room.
func accounts(a *app.App) (*tokenserver.Service, error) {
	if s := a.Accounts(); s != nil {
		return s, nil
	}
	return nil, errors.New("the tokenserver is not enabled in this configuration")
}

// withAccounts runs fn on the tokenserver's room.
func (c *command) withAccounts(fn func(ctx context.Context, s *tokenserver.Service, args []string) error) func(*cobra.Command, []string) error {
	return c.with(func(ctx context.Context, a *app.App, args []string) error {
		s, err := accounts(a)
		if err != nil {
			return err
		}
		return fn(ctx, s, args)
	})
}

// withAccount runs fn on the account that the first argument names.
func (c *command) withAccount(fn func(ctx context.Context, a *app.App, s *tokenserver.Service, acc tokenserver.Account) error) func(*cobra.Command, []string) error {
	return c.with(func(ctx context.Context, a *app.App, args []string) error {
		s, err := accounts(a)
		if err != nil {
			return err
		}
		acc, err := tokenserver.ParseAccount(args[0], s.Config.FxAEmailDomain)
		if err != nil {
			return err
		}
		return fn(ctx, a, s, acc)
	})
}
