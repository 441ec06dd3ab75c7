package tokenserver

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/fault"
	"holdfast/internal/operate"
	"holdfast/internal/tokenserver"
)

// target names the storage of a command: by account, or by storage user (--uid) if the
// accounts are on another server.
type target struct{ userInput }

// The ends of the usage and help of commands with a target.
const (
	targetUse  = "(ACCOUNT | --uid N)"
	targetLong = "ACCOUNT is the account's ID, as in tokenserver accounts list. On a server with storage but without accounts, name\n" +
		"the storage user with --uid instead; on Spanner also with --fxa-uid and --fxa-kid, which\n" +
		"tokenserver accounts show prints on the server with the accounts."
)

func (t *target) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Int64Var(&t.UID, "uid", 0, "`UID` of a storage user of this server, instead of an account")
	f.StringVar(&t.FxAUID, "fxa-uid", "", "with --uid: account `ID` at the accounts server")
	f.StringVar(&t.FxAKID, "fxa-kid", "", "with --uid: `ID` of the account's keys")
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
	case byUID && t.UID < 1:
		return service.Usagef("--uid: must be at least 1")
	case !byUID && (t.FxAUID != "" || t.FxAKID != ""):
		return service.Usagef("--fxa-uid and --fxa-kid require --uid")
	case !byUID && len(args) == 0:
		return service.Usagef("ACCOUNT or --uid is required")
	}
	return nil
}

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
			return typed(fn(ctx, byUID, args))
		})(cmd, args)
	}
}

// withTarget runs fn on the local storage users of the target, the current one first.
// rest are the arguments after the account.
func (c *command) withTarget(t *target, fn func(ctx context.Context, users []tokenserver.User, rest []string) error) func(*cobra.Command, []string) error {
	return c.withStorage(t, func(ctx context.Context, byUID bool, args []string) error {
		if byUID {
			u, err := c.state.named(t.userInput)
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

// typed returns an error that names an input as it is typed.
func typed(err error) error {
	if wrong, ok := errors.AsType[*operate.InputError](err); ok {
		name := "--" + wrong.Input
		if wrong.Input == "account" {
			name = "ACCOUNT"
		}
		return service.Usagef("%s: %s", name, wrong.Reason)
	}
	return err
}

func (c *command) userExport() *cobra.Command {
	var (
		t    target
		file string
	)
	cmd := &cobra.Command{
		Use:   "export " + targetUse,
		Short: "Write everything that one account stores, a line of JSON for each record",
		Long: "Export the records of an account as they are stored, encrypted by its browsers: a header, a line of\n" +
			"JSON for each collection and record, and a last line that says that the export is complete. It is a\n" +
			"consistent snapshot, even while browsers write. Open batches and the account's quota are not\n" +
			"exported. The file gets its name when it is complete.\n\n" + targetLong,
		Example: "  holdfast tokenserver accounts export 0123456789abcdef0123456789abcdef -o user.ndjson",
	}
	t.flags(cmd)
	cmd.Args = func(cmd *cobra.Command, args []string) error { return t.args(cmd, args, 0) }
	cmd.RunE = c.withTarget(&t, func(ctx context.Context, users []tokenserver.User, _ []string) error {
		bar := c.Bar("records", 0)
		defer bar.End()
		export := func(w io.Writer) error {
			_, err := c.state.storage.Export(ctx, &users[0], w, bar.Show)
			return err
		}
		if file == "" {
			return export(c.Stdout)
		}
		return service.WriteWhole(file, export)
	})
	cmd.Flags().StringVarP(&file, "output", "o", "", "write to `FILE` (default: standard output)")
	return cmd
}

func (c *command) userImport() *cobra.Command {
	var (
		t target
		o ImportOptions
	)
	cmd := &cobra.Command{
		Use:   "import " + targetUse + " FILE",
		Short: "Put the records of an export into the storage of an account",
		Long: "Import the records of accounts export into an account's storage, on any engine. FILE may be -, for\n" +
			"standard input. An unknown account is created with the keys of the export, so that its\n" +
			"browsers find the records when they first sign in. Limits and quotas apply as for a browser.\n\n" +
			"With --preserve, records keep their times: browsers that synced with the other server find nothing new\n" +
			"and transfer nothing. No browser of the account may sync meanwhile: deny the account first.\n" +
			"Without --preserve, records get the current time, and browsers download them all.\n\n" +
			"Records are written 100 at a time. After a failure, those before it are written: import the same\n" +
			"file again with --merge, which also adds records to existing ones. Of two records with the same ID the\n" +
			"later one is kept with --preserve, otherwise the one from the file.\n\n" + targetLong,
		Example: "  holdfast tokenserver accounts import 0123456789abcdef0123456789abcdef user.ndjson --preserve",
	}
	t.flags(cmd)
	cmd.Flags().BoolVar(&o.Preserve, "preserve", false, "keep the times of records and collections")
	cmd.Flags().BoolVar(&o.Merge, "merge", false, "add to existing records, or continue after a failure")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 || len(args) == 1 && !cmd.Flags().Changed("uid") {
			return service.Usagef("FILE is required")
		}
		return t.args(cmd, args, 1)
	}
	cmd.RunE = c.withStorage(&t, func(ctx context.Context, byUID bool, args []string) error {
		find := func(ExportedUser) (*tokenserver.User, error) {
			u, err := c.state.named(t.userInput)
			return &u, err
		}
		if !byUID {
			find = func(from ExportedUser) (*tokenserver.User, error) { return c.importTarget(ctx, args[0], from) }
		}
		return c.importFile(ctx, args[len(args)-1], o, find)
	})
	return cmd
}

func (c *command) importFile(ctx context.Context, name string, o ImportOptions, find func(ExportedUser) (*tokenserver.User, error)) error {
	lines, size, err := c.OpenInput(name)
	if err != nil {
		return err
	}
	defer lines.Close()
	bar := c.Bar("bytes", size)
	done, err := c.state.storage.Import(ctx, bar.Reader(lines), o, find)
	bar.End()
	if done.Records > 0 || err == nil {
		newer := ""
		if o.Preserve {
			newer = fmt.Sprintf(", later here: %d", done.Newer)
		}
		c.Printf("records: %d of %d, written: %d, expired: %d%s; collections: %d\n",
			done.Records, done.Total, done.Written, done.Expired, newer, done.Collections)
	}
	if err != nil && ctx.Err() != nil {
		err = errors.New("stopped before the end")
	}
	if err != nil && done.Written > 0 {
		err = fmt.Errorf("%w\nthe import is not complete: import the same file again with --merge, before browsers sync", err)
	}
	return err
}

// importTarget returns the storage user to import into: that of the account, or a new one
// if the account has none.
func (c *command) importTarget(ctx context.Context, name string, from ExportedUser) (*tokenserver.User, error) {
	users, err := c.state.usersOf(ctx, name)
	if fault.Is(err, fault.NotFound) && from.Account != "" {
		return c.adopt(ctx, name, from)
	}
	if err != nil {
		return nil, err
	}
	u := &users[0]
	if from.Account != "" && from.Account != u.Account().FxAUID {
		return nil, fmt.Errorf("the export is of account %s, whose records %s cannot decrypt", from.Account, u.Account().FxAUID)
	}
	if from.Keys != "" {
		keys, err := tokenserver.ParseKeyID(from.Keys)
		if err != nil {
			return nil, errBadKeys
		}
		if keys.ClientState != u.ClientState {
			return nil, errors.New("the account has other keys here than in the export, so its browsers could not decrypt the records")
		}
	}
	return u, nil
}

var errBadKeys = errors.New("line 1: keys: expected the id of an account's keys")

// adopt creates the storage user of an account that this server does not know.
func (c *command) adopt(ctx context.Context, name string, from ExportedUser) (*tokenserver.User, error) {
	s := c.state.opened
	a, err := s.ParseAccount(name)
	if err != nil {
		return nil, err
	}
	if from.Account != a.FxAUID {
		return nil, fmt.Errorf("the export is of account %s, not of %s", from.Account, a.FxAUID)
	}
	keys, err := tokenserver.ParseKeyID(from.Keys)
	if err != nil || from.Generation < 0 {
		return nil, errBadKeys
	}
	u, err := s.Adopt(ctx, a, from.Generation, keys)
	if err != nil {
		return nil, fmt.Errorf("create the storage user of account %s: %w", a.FxAUID, err)
	}
	if !s.IsLocal(&u) {
		return nil, elsewhere(a, &u)
	}
	fmt.Fprintf(c.Stderr, "created storage user %d of account %s\n", u.UID, a.FxAUID)
	return &u, nil
}
