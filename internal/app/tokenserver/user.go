package tokenserver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/fault"
	"holdfast/internal/tokenserver"
)

func listRefused(ctx context.Context, w *service.Printer, s *tokenserver.Service, limit int) error {
	refused, err := s.Refused(ctx, limit)
	if err != nil {
		return err
	}
	w.Printf("ACCOUNT\tATTEMPTS\tFIRST\tLAST\n")
	for _, r := range refused {
		w.Printf("%s\t%d\t%s\t%s\n", r.FxAUID, r.Attempts, service.FormatMillis(r.FirstAt), service.FormatMillis(r.LastAt))
	}
	return nil
}

func listAccess(ctx context.Context, w *service.Printer, s *tokenserver.Service, after string, limit int) error {
	rules, err := s.ListAccess(ctx, after, limit)
	if err != nil {
		return err
	}
	w.Printf("ACCOUNT\tACCESS\tSINCE\tNOTE\n")
	for _, r := range rules {
		w.Printf("%s\t%s\t%s\t%s\n", r.FxAUID, r.Access, service.FormatMillis(r.CreatedAt), r.Note)
	}
	return nil
}

func (c *command) userShow() *cobra.Command {
	return &cobra.Command{
		Use:     "show ACCOUNT",
		Short:   "Show an account: its storage users and how much they store",
		Example: "  holdfast sync user show 0123456789abcdef0123456789abcdef",
		Args:    service.Args("ACCOUNT"),
		RunE: c.withAccount(func(ctx context.Context, s *tokenserver.Service, acc tokenserver.Account) error {
			st, err := s.AccountState(ctx, acc)
			if err != nil {
				return err
			}
			if len(st.Users) == 0 && st.Access == tokenserver.Unlisted {
				return unknown(acc)
			}
			w := c.Table()
			w.Printf("account\t%s\naccess\t%s\n", acc.FxAUID, st.Access)
			for i := range st.Users {
				if err := c.showUser(ctx, s, w, &st.Users[i]); err != nil {
					return errors.Join(err, w.Flush())
				}
			}
			if len(st.Users) == 0 {
				w.Printf("storage\tnone: the account has never signed in here\n")
			}
			return w.Flush()
		}),
	}
}

// unknown returns the error for an account that is not in the database. Accounts are
// looked up before their IDs are checked, because a database may have other IDs than
// those of Mozilla's accounts server.
func unknown(a tokenserver.Account) error {
	if !tokenserver.IsAccountID(a.FxAUID) {
		return invalidAccount(a.FxAUID)
	}
	return fault.Newf(fault.NotFound, "account %s is unknown: it has never signed in here, or was deleted, and is not on the allow or deny list; sync user list and sync user list --refused print known IDs", a.FxAUID)
}

func (c *command) showUser(ctx context.Context, s *tokenserver.Service, w *service.Printer, u *tokenserver.User) error {
	ended := "replaced"
	if u.IsDeleted() {
		ended = "deleted"
	}
	w.Printf("\nuid\t%d\nnode\t%s\nkeys\t%s\ncreated\t%s\n%s\t%s\n",
		u.UID, u.Node, u.KeyID(), service.FormatMillis(u.CreatedAt), ended, service.FormatMillis(u.ReplacedAt))
	if !s.IsLocal(u) {
		return nil
	}
	usage, err := c.state.storage.Usage(ctx, u)
	if err != nil {
		return err
	}
	own := ""
	if usage.OwnQuota {
		own = " (a quota of its own)"
	}
	w.Printf("stored\t%s%s, last write %s\n", bytesOf(usage.Bytes, usage.Quota), own, service.FormatMillis(usage.ModifiedMillis))
	for _, col := range usage.Collections {
		w.Printf("  %s\t%s, %s\n", col.Name, service.Count(col.Records, "record"), bytesOf(col.Bytes, usage.CollectionQuota))
	}
	return nil
}

// bytesOf formats a number of bytes with its limit, if there is one.
func bytesOf(n, limit int64) string {
	if limit == 0 {
		return service.Count(n, "byte")
	}
	return fmt.Sprintf("%d of %d bytes", n, limit)
}

func (c *command) userDelete() *cobra.Command {
	var sure bool
	cmd := &cobra.Command{
		Use:   "delete ACCOUNT",
		Short: "Delete everything that an account stores",
		Long: "Delete everything that an account's storage users store. The account can sign in again and\n" +
			"starts empty; to prevent that, deny it. The storage users remain listed as replaced until their\n" +
			"tokens have expired (tokenserver.token_duration). What those tokens still write to a storage\n" +
			"node that does not refuse them is deleted then.",
		Example: "  holdfast sync user delete 0123456789abcdef0123456789abcdef --yes",
		Args:    service.Args("ACCOUNT"),
		RunE: c.withAccount(func(ctx context.Context, s *tokenserver.Service, acc tokenserver.Account) error {
			if !sure && !c.Confirm(fmt.Sprintf("Delete everything that account %s stores?", acc.FxAUID)) {
				return errors.New("nothing was deleted: answer y, or use --yes")
			}
			n, err := s.DeleteAccount(ctx, acc)
			if err == nil && n == 0 {
				return withoutStorage(acc)
			}
			if n > 0 {
				c.Printf("deleted %s of %s\n", service.Count(int64(n), "storage user"), acc.FxAUID)
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&sure, "yes", false, "do not ask for confirmation")
	return cmd
}

// userAccess returns the command allow or deny.
func (c *command) userAccess(access tokenserver.Access) *cobra.Command {
	var (
		note   string
		forget bool
	)
	short := "Allow an account to sign in, even when new accounts are refused"
	if access == tokenserver.Denied {
		short = "Deny an account: refuse its sign-ins and tokens, and keep its data"
	}
	cmd := &cobra.Command{
		Use:   access.String() + " ACCOUNT",
		Short: short,
		Long: short + ".\nACCOUNT is the account's ID, 32 hexadecimal digits; sync user list --refused shows those of\n" +
			"accounts that tried to sign in.",
		Example: "  holdfast sync user " + access.String() + " 0123456789abcdef0123456789abcdef --note 'my sister'\n" +
			"  holdfast sync user " + access.String() + " 0123456789abcdef0123456789abcdef --remove",
		Args: service.Args("ACCOUNT"),
		PreRunE: func(_ *cobra.Command, args []string) error {
			if id, _, _ := strings.Cut(args[0], "@"); !forget && !tokenserver.IsAccountID(id) {
				return invalidAccount(args[0])
			}
			return nil
		},
		RunE: c.withAccount(func(ctx context.Context, s *tokenserver.Service, acc tokenserver.Account) error {
			rule, done := tokenserver.Rule{FxAUID: acc.FxAUID, Access: access, Note: note}, "allowed account %s"
			switch {
			case forget:
				rule.Access, done = tokenserver.Unlisted, "removed account %s from the allow and deny lists"
			case access == tokenserver.Denied:
				done = "denied account %s: its sign-ins and tokens are refused, its data is kept"
			}
			if err := s.SetAccess(ctx, acc, rule); err != nil {
				return err
			}
			_, err := c.Printf(done+"\n", acc.FxAUID)
			return err
		}),
	}
	cmd.Flags().StringVar(&note, "note", "", "a `NOTE` for yourself, which sync user list --access shows")
	cmd.Flags().BoolVar(&forget, "remove", false, "remove the account from the list")
	return cmd
}
