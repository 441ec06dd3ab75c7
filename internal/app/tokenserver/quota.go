package tokenserver

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/db/engine"
	"holdfast/internal/fault"
	"holdfast/internal/optional"
	"holdfast/internal/tokenserver"
)

// inheritQuota copies the account's own quota from its former storage users to a new one.
func (s *Accounts) inheritQuota(ctx context.Context, from []tokenserver.User, to *tokenserver.User) error {
	totals, err := s.storage.Totals(ctx, append([]tokenserver.User{*to}, from...))
	if err != nil {
		return err
	}
	if totals[0].Quota.Set {
		return nil
	}
	for _, t := range totals[1:] {
		if t.Quota.Set {
			return s.storage.SetQuota(ctx, to, t.Quota)
		}
	}
	return nil
}

// target names the storage of a command: by account, or by storage user (--uid) if the
// accounts are on another server.
type target struct {
	uid            int64
	fxaUID, fxaKID string
}

// The ends of the usage and help of commands with a target.
const (
	targetUse  = "(ACCOUNT | --uid N)"
	targetLong = "ACCOUNT is the account's ID, as in sync user list. On a server with storage but without accounts, name\n" +
		"the storage user with --uid instead; on Spanner also with --fxa-uid and --fxa-kid, which sync user\n" +
		"show prints on the server with the accounts."
)

func (t *target) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Int64Var(&t.uid, "uid", 0, "`UID` of a storage user of this server, instead of an account")
	f.StringVar(&t.fxaUID, "fxa-uid", "", "with --uid: account `ID` at the accounts server")
	f.StringVar(&t.fxaKID, "fxa-kid", "", "with --uid: `ID` of the account's keys")
}

// args checks that there are at most so many arguments after the account.
func (t *target) args(cmd *cobra.Command, args []string, most int) error {
	if !cmd.Flags().Changed("uid") {
		most++
	}
	if len(args) > most {
		return service.Usagef("unexpected argument %q", args[most])
	}
	return nil
}

// check checks how a command names its target.
func (t *target) check(byUID bool, args []string) error {
	switch {
	case byUID && t.uid < 1:
		return service.Usagef("--uid: must be at least 1")
	case !byUID && (t.fxaUID != "" || t.fxaKID != ""):
		return service.Usagef("--fxa-uid and --fxa-kid require --uid")
	case !byUID && len(args) == 0:
		return service.Usagef("ACCOUNT or --uid is required")
	}
	return nil
}

var errNoStorage = errors.New("storage of Firefox Sync is disabled: set syncstorage.enabled = true")

// withStorage runs fn while the storage is open, after the target is checked. byUID means
// that --uid names the target, and not the first argument.
func (c *command) withStorage(t *target, fn func(ctx context.Context, byUID bool, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		byUID := cmd.Flags().Changed("uid")
		if err := t.check(byUID, args); err != nil {
			return err
		}
		return c.Run(func(ctx context.Context, args []string) error {
			if !c.state.storage.IsOpen() {
				return errNoStorage
			}
			return fn(ctx, byUID, args)
		})(cmd, args)
	}
}

// withTarget runs fn on the local storage users of the target, the current one first.
// rest are the arguments after the account.
func (c *command) withTarget(t *target, fn func(ctx context.Context, users []tokenserver.User, rest []string) error) func(*cobra.Command, []string) error {
	return c.withStorage(t, func(ctx context.Context, byUID bool, args []string) error {
		if byUID {
			u, err := c.namedUser(t)
			if err != nil {
				return err
			}
			return fn(ctx, []tokenserver.User{u}, args)
		}
		users, err := c.state.usersOf(ctx, args[0])
		if err != nil {
			return err
		}
		return fn(ctx, users, args[1:])
	})
}

// namedUser returns the storage user of --uid.
func (c *command) namedUser(t *target) (u tokenserver.User, err error) {
	if kind, _ := c.state.storage.Engine(); kind == engine.Spanner && (t.fxaUID == "" || t.fxaKID == "") {
		return u, service.Usagef("--uid requires --fxa-uid and --fxa-kid on Spanner, where they are part of the key")
	}
	u = tokenserver.User{UID: t.uid, Email: t.fxaUID + "@"}
	if t.fxaKID != "" {
		keys, err := tokenserver.ParseKeyID(t.fxaKID)
		if err != nil || keys.String() != t.fxaKID {
			return u, service.Usagef("--fxa-kid: invalid value %q: expected the id of keys as sync user show prints it", t.fxaKID)
		}
		u.KeysChangedAt, u.ClientState = keys.ChangedAt, keys.ClientState
	}
	return u, nil
}

// usersOf returns the storage users of an account on this server, the current one first.
func (s *Accounts) usersOf(ctx context.Context, name string) (users []tokenserver.User, err error) {
	if s.opened == nil {
		return nil, fmt.Errorf("%w, or name a storage user with --uid", errDisabled)
	}
	a, err := s.opened.ParseAccount(name)
	if err != nil {
		return nil, err
	}
	st, err := s.opened.AccountState(ctx, a)
	if err != nil {
		return nil, err
	}
	var away error
	for _, replaced := range []bool{false, true} {
		for i := range st.Users {
			switch u := &st.Users[i]; {
			case u.Replaced != replaced || u.IsDeleted():
			case s.opened.IsLocal(u):
				users = append(users, *u)
			case !replaced:
				away = elsewhere(a, u)
			}
		}
	}
	switch {
	case away != nil:
		return nil, away
	case users == nil || users[0].Replaced:
		return nil, withoutStorage(a)
	}
	return users, nil
}

// withoutStorage returns the error for an account without a storage user.
func withoutStorage(a tokenserver.Account) error {
	if !tokenserver.IsAccountID(a.FxAUID) {
		return invalidAccount(a.FxAUID)
	}
	return fault.Newf(fault.NotFound, "account %s has no storage here: it has never signed in, or was deleted", a.FxAUID)
}

// invalidAccount returns the error for an argument that cannot be an account.
func invalidAccount(name string) error {
	return service.Usagef("invalid account ID %q: expected 32 hexadecimal digits (0-9, a-f)", name)
}

// elsewhere returns the error for an account whose storage is on another node.
func elsewhere(a tokenserver.Account, u *tokenserver.User) error {
	return fault.Newf(fault.Conflict, "the storage of account %s is on node %s: run the command there with --uid %d --fxa-uid %s --fxa-kid %s",
		a.FxAUID, u.Node, u.UID, a.FxAUID, u.KeyID())
}

func (c *command) userQuota() *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "quota " + targetUse + " [BYTES | unlimited | none]",
		Short: "Show or set how much one account may store",
		Long: "Show how much an account stores and its quota, or set a quota for it: in bytes, or with a unit such\n" +
			"as 500MiB. From the account's next write on it replaces syncstorage.limits.max_user_quota; none\n" +
			"removes it. Like that setting, it is counted with syncstorage.enable_quota and enforced with\n" +
			"syncstorage.enforce_quota. An account with new keys keeps its quota; one that is deleted or moves\n" +
			"to another node loses it.\n\n" + targetLong,
		Example: "  holdfast sync user quota 0123456789abcdef0123456789abcdef\n" +
			"  holdfast sync user quota 0123456789abcdef0123456789abcdef 2GiB\n" +
			"  holdfast sync user quota 0123456789abcdef0123456789abcdef none",
	}
	t.flags(cmd)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		return t.args(cmd, args, 1)
	}
	var quota optional.Of[int64]
	cmd.PreRunE = func(cmd *cobra.Command, args []string) (err error) {
		if !cmd.Flags().Changed("uid") {
			args = args[min(1, len(args)):]
		}
		if len(args) > 0 {
			quota, err = parseQuota(args[0])
		}
		return err
	}
	cmd.RunE = c.withTarget(&t, func(ctx context.Context, users []tokenserver.User, rest []string) error {
		if len(rest) > 0 {
			warning, err := c.state.setQuota(ctx, users, quota)
			if err != nil {
				return err
			}
			if warning != "" {
				fmt.Fprintln(c.Stderr, "warning: "+warning)
			}
		}
		return c.showQuota(ctx, &users[0])
	})
	return cmd
}

// parseQuota parses a quota: not set for none, 0 for unlimited.
func parseQuota(text string) (quota optional.Of[int64], err error) {
	switch text {
	case "none":
		return quota, nil
	case "unlimited":
		return optional.Some[int64](0), nil
	}
	n, ok := service.ParseBytes(text)
	if !ok || n < 1 || n == math.MaxInt64 {
		return quota, service.Usagef("invalid quota %q: expected a number of bytes above 0 such as 5000000 or 500MiB, unlimited, or none", text)
	}
	return optional.Some(n), nil
}

// setQuota sets the quota of all storage users of an account. Tokens of replaced ones may
// still be valid, and a new storage user inherits the quota of the last one. It returns why
// the quota has no effect, or "".
func (s *Accounts) setQuota(ctx context.Context, users []tokenserver.User, quota optional.Of[int64]) (warning string, err error) {
	for i := range users {
		if err := s.storage.SetQuota(ctx, &users[i], quota); err != nil {
			return "", err
		}
	}
	switch counted, enforced := s.storage.Quotas(); {
	case quota.Set && !counted:
		return "quotas are off: set syncstorage.enable_quota to count them, and syncstorage.enforce_quota to enforce them", nil
	case quota.Set && !enforced:
		return "quotas are counted but not enforced: set syncstorage.enforce_quota to refuse writes over quota", nil
	}
	return "", nil
}

func (c *command) showQuota(ctx context.Context, u *tokenserver.User) error {
	usage, err := c.state.storage.Usage(ctx, u)
	if err != nil {
		return err
	}
	of, quota := "the setting syncstorage.limits.max_user_quota", "unlimited"
	if usage.OwnQuota {
		of = "the account's own"
	}
	if usage.Quota > 0 {
		quota = c.size(usage.Quota)
	}
	w := c.Table()
	w.Printf("uid\t%d\nstored\t%s\nquota\t%s, %s\n", u.UID, c.size(usage.Bytes), quota, of)
	return w.Flush()
}
