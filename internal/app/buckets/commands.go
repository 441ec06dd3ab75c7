package buckets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/db/rows"
)

// command is what the commands share.
type command struct {
	*service.Shell
	state *Buckets
}

func (s *Buckets) commands(sh *service.Shell) []*cobra.Command {
	c := &command{sh, s}
	cmd := &cobra.Command{Use: "buckets", Short: "Manage buckets: accounts, access keys, tokens, quotas and storage nodes"}
	account := &cobra.Command{Use: "account", Short: "Manage accounts, which own buckets"}
	account.AddCommand(c.createAccount(), c.listAccounts(), c.deleteAccount())
	key := &cobra.Command{Use: "key", Short: "Manage the access keys of an account"}
	key.AddCommand(c.createKey(), c.listKeys(), c.revokeKey())
	cmd.AddCommand(account, key, c.token(), c.quota(), c.list(), c.node(), c.audit())
	return []*cobra.Command{cmd}
}

var errDisabled = errors.New("buckets are disabled, or no server has been started on this data yet")

var errAccountConfigured = errors.New("the account is in the configuration: remove it there, and restart the server")

func (c *command) run(fn func(ctx context.Context, st store, args []string) error) func(*cobra.Command, []string) error {
	return c.Run(func(ctx context.Context, args []string) error {
		if c.state.opened == nil {
			return errDisabled
		}
		// An audit would remove the bodies of objects that are not copied yet.
		if err := c.state.deps.Whole(ctx); err != nil {
			return err
		}
		return about(args, fn(ctx, c.state.store, args))
	})
}

var errReadOnly = errors.New("buckets are read-only: GET /read-only on the admin listener says why; if they were copied, use the target of the copy")

// about adds to an error which account, access key or bucket it is about.
func about(args []string, err error) error {
	is := func(e error) bool { return errors.Is(err, e) }
	first := []error{
		buckets.ErrNoAccount, buckets.ErrAccountExists, buckets.ErrAccountHasBucket, buckets.ErrAccountName, errAccountConfigured,
		buckets.ErrNoKey, buckets.ErrKeyConfigured,
	}
	switch {
	case len(args) > 0 && slices.ContainsFunc(first, is):
		return fmt.Errorf("%s: %w", args[0], err)
	case len(args) > 1 && is(buckets.ErrNoBucket):
		return fmt.Errorf("%s: %w", args[1], err)
	case is(rows.ErrReadOnly):
		return errReadOnly
	}
	return err
}

func (c *command) createAccount() *cobra.Command {
	return &cobra.Command{
		Use: "create NAME", Short: "Create an account with an access key", Args: service.Args("NAME"),
		RunE: c.run(func(ctx context.Context, _ store, args []string) error {
			if err := errors.Join(buckets.CheckAccountName(args[0]), c.state.needKeySecret()); err != nil {
				return err
			}
			key, err := c.state.createAccount(ctx, args[0])
			if err != nil {
				return err
			}
			return c.printKey(args[0], key)
		}),
	}
}

func (c *command) printKey(account string, key newKey) error {
	w := c.Table()
	w.Printf("account\t%s\naccess key\t%s\nsecret key\t%s\n", account, key.id, key.secret)
	return w.Flush()
}

func (c *command) listAccounts() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List accounts", Args: service.Args(),
		RunE: c.run(func(ctx context.Context, st store, _ []string) error {
			w := c.Table()
			w.Printf("ACCOUNT\tID\tCREATED\tOBJECTS\tQUOTA\tBYTES\tQUOTA\n")
			for after := ""; ; {
				page, err := st.ListAccounts(ctx, after, buckets.MaxPage)
				if err != nil {
					return err
				}
				used, err := st.Totals(ctx, accountIDs(page))
				if err != nil {
					return err
				}
				for i, a := range page {
					w.Printf("%s\t%s\t%s\t%s\n", a.Name, a.ID, a.Created.Time().Format(time.DateOnly), usage(used[i].Total, used[i].Quota))
					after = a.Name
				}
				if len(page) < buckets.MaxPage {
					return w.Flush()
				}
			}
		}),
	}
}

func (c *command) deleteAccount() *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "Delete an account that has no buckets, with its access keys", Args: service.Args("NAME"),
		RunE: c.run(func(ctx context.Context, st store, args []string) error {
			if _, ok := c.state.cfg.Accounts[args[0]]; ok {
				return errAccountConfigured
			}
			a, err := st.Account(ctx, args[0])
			if err != nil {
				return err
			}
			return st.DeleteAccount(ctx, a.ID)
		}),
	}
}

func (c *command) createKey() *cobra.Command {
	return &cobra.Command{
		Use: "create ACCOUNT", Short: "Create an access key and print it with its secret", Args: service.Args("ACCOUNT"),
		RunE: c.run(func(ctx context.Context, st store, args []string) error {
			if err := c.state.needKeySecret(); err != nil {
				return err
			}
			a, err := st.Account(ctx, args[0])
			if err != nil {
				return err
			}
			var key newKey
			if key.id, key.secret, err = c.state.keys.Create(ctx, a.ID); err != nil {
				return err
			}
			return c.printKey(a.Name, key)
		}),
	}
}

func (c *command) listKeys() *cobra.Command {
	secrets := false
	cmd := &cobra.Command{
		Use: "list ACCOUNT", Short: "List the access keys of an account", Args: service.Args("ACCOUNT"),
		RunE: c.run(func(ctx context.Context, st store, args []string) error {
			a, err := st.Account(ctx, args[0])
			if err != nil {
				return err
			}
			keys, err := st.Keys(ctx, a.ID)
			if err != nil {
				return err
			}
			// The last line is a key that works: revoked keys come first.
			slices.SortFunc(keys, func(a, b buckets.Key) int {
				switch aRevoked, bRevoked := a.Revoked != 0, b.Revoked != 0; {
				case aRevoked && !bRevoked:
					return -1
				case bRevoked && !aRevoked:
					return 1
				}
				return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.ID, b.ID))
			})
			w := c.Table()
			w.Printf("ACCESS KEY\tCREATED\tREVOKED\tSECRET KEY\n")
			for _, k := range c.state.cfg.ConfiguredKeys() {
				if k.Account == a.Name {
					secret := "(configuration)"
					if secrets {
						secret = k.Secret
					}
					w.Printf("%s\t%s\t%s\t%s\n", k.ID, "", "", secret)
				}
			}
			for _, k := range keys {
				revoked, secret := "", "(--secrets shows it)"
				if k.Revoked != 0 {
					revoked = k.Revoked.Time().Format(time.DateOnly)
				}
				if secrets {
					if secret, err = c.state.keys.Secret(k); err != nil {
						return err
					}
				}
				w.Printf("%s\t%s\t%s\t%s\n", k.ID, k.Created.Time().Format(time.DateOnly), revoked, secret)
			}
			return w.Flush()
		}),
	}
	cmd.Flags().BoolVar(&secrets, "secrets", false, "show the secret keys")
	return cmd
}

func (c *command) revokeKey() *cobra.Command {
	return &cobra.Command{
		Use: "revoke ACCESS-KEY", Short: "Revoke an access key", Args: service.Args("ACCESS-KEY"),
		RunE: c.run(func(ctx context.Context, _ store, args []string) error {
			return c.state.keys.Revoke(ctx, args[0])
		}),
	}
}
