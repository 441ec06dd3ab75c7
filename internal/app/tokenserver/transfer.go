package tokenserver

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
	"holdfast/internal/tokenserver"
)

const transferSize = 8 << 20 // bytes per import batch, with copies

const (
	// byAccount and byUser end the operations' help: how to name the account or the storage user.
	byAccount = "ACCOUNT is the account's ID, as in tokenserver accounts list. On a server with storage but without accounts, name\n" +
		"the storage user instead: tokenserver users "
	byUser = "UID is a storage user on this server. On Spanner it needs --fxa-uid and --fxa-kid, which tokenserver accounts show\n" +
		"prints on the accounts server."
)

// accountTransfers declares the export and the import that name an account.
func (s *Accounts) accountTransfers() []operate.Operation {
	export, imports := exportAbout("accounts/export", "an account", byAccount+"export."), importAbout("accounts/import", "an account", byAccount+"import.")
	export.Example, imports.Example = "0123456789abcdef0123456789abcdef -o user.ndjson\n", "0123456789abcdef0123456789abcdef user.ndjson --preserve\n"
	return []operate.Operation{
		operate.NewDownload(export, func(ctx context.Context, in accountInput, progress operate.Progress) (f operate.File, err error) {
			if !s.storage.IsOpen() {
				return f, errNoStorage
			}
			users, err := s.usersOf(ctx, in.Account)
			if err != nil {
				return f, err
			}
			account := users[0].Account()
			labels, err := s.opened.LabelsOf(ctx, []string{account.FxAUID})
			if err != nil {
				return f, err
			}
			return s.export(ctx, &users[0], exported{in.Account, labels[account.FxAUID].Text}, progress), nil
		}),
		operate.NewUpload(imports, func(ctx context.Context, in importAccountInput, file operate.Body, _ operate.Progress) (importOutput, error) {
			t := &target{Accounts: s}
			out, err := s.imports(ctx, file, in.ImportOptions(), t, func(from ExportedUser) (*tokenserver.User, error) { return t.find(ctx, in.Account, from) })
			if err == nil {
				var note string
				note, err = t.setLabel(ctx)
				out.note = strings.Trim(out.note+"\n"+note, "\n")
			}
			return out, err
		}),
	}
}

// userTransfers declares the export and the import that name a storage user, for a server with storage but without
// accounts.
func (s *Accounts) userTransfers() []operate.Operation {
	export, imports := exportAbout("users/export", "a storage user", byUser), importAbout("users/import", "a storage user", byUser)
	export.Example, imports.Example = "17 -o user.ndjson\n", "17 user.ndjson --preserve\n"
	return []operate.Operation{
		operate.NewDownload(export, func(ctx context.Context, in userInput, progress operate.Progress) (f operate.File, err error) {
			if !s.storage.IsOpen() {
				return f, errNoStorage
			}
			u, err := s.named(in)
			if err != nil {
				return f, err
			}
			return s.export(ctx, &u, exported{name: strconv.FormatInt(in.UID, 10)}, progress), nil
		}),
		operate.NewUpload(imports, func(ctx context.Context, in importUserInput, file operate.Body, _ operate.Progress) (importOutput, error) {
			return s.imports(ctx, file, in.ImportOptions(), &target{}, func(ExportedUser) (*tokenserver.User, error) {
				u, err := s.named(in.userInput)
				return &u, err
			})
		}),
	}
}

// exportAbout describes an export. of completes "everything that … stores"; naming says how to name it.
func exportAbout(path, of, naming string) operate.About {
	return operate.About{
		Path: path, Doc: "Write everything that " + of + " stores, as JSON lines", Button: "Export", Access: operate.ForAdmins, Media: operate.Lines, Memory: transferSize, Counts: "records",
		More: "Records are exported as stored, encrypted by browsers: a header, a JSON line per collection and record, and a last\n" +
			"line that marks the export as complete. It is a consistent snapshot, even while browsers write. Open batches and\n" +
			"the quota are not exported. The file gets its name when it is complete.\n\n" + naming,
	}
}

// importAbout describes an import. into completes "the storage of …".
func importAbout(path, into, naming string) operate.About {
	return operate.About{
		Path: path, Doc: "Import exported records into the storage of " + into, Button: "Import", Media: operate.Lines, Memory: transferSize, Largest: operate.LargestLines, Stays: true,
		Title: "Import an export", Text: "Limits and quotas apply as for a browser. If a line is wrong, the records before it stay.",
		More: "The export may come from any engine. FILE may be -, for standard input. An unknown account is created with the\n" +
			"exported keys, so that its browsers find the records when they first sign in. Limits and quotas apply as for a browser.\n\n" +
			"With --preserve, records keep their times: browsers that synced with the other server find nothing new and transfer\n" +
			"nothing. The account's browsers must not sync meanwhile: deny the account first. Without --preserve, records get the\n" +
			"current time, and browsers download them all.\n\n" +
			"Records are written 100 at a time. After a failure, earlier records are written: import the same file again with\n" +
			"--merge, which also adds to existing records. If two records share an ID, --preserve keeps the later record;\n" +
			"otherwise the file's record wins.\n\n" + naming,
	}
}

// exported names an export: name is the file's name, label goes into the header.
type exported struct{ name, label string }

// export returns the file. Nothing is read before File.Write is called, so errors of the storage end the download
// early.
func (s *Accounts) export(ctx context.Context, u *tokenserver.User, of exported, progress operate.Progress) operate.File {
	return operate.File{Name: of.name + ".ndjson", Write: func(to io.Writer) error {
		_, err := s.storage.Export(ctx, u, of.label, to, func(records int64) { progress.Report(records, 0) })
		return err
	}}
}

// importFlags are the flags of both imports; see tokenserver.ImportOptions for the fields' order.
type importFlags struct {
	Preserve bool `flag:"preserve" doc:"keep record and collection times"`
	Merge    bool `flag:"merge" doc:"add to existing records, or continue after a failure"`
}

// ImportOptions converts the flags for Storage.
func (in importFlags) ImportOptions() ImportOptions { return ImportOptions(in) }

type importAccountInput struct {
	accountInput
	importFlags
}

type importUserInput struct {
	userInput
	importFlags
}

// importOutput counts records; see Imported. It is a partial result if the import fails.
type importOutput struct {
	Records     int64 `json:"records" least:"0"`
	Total       int64 `json:"total" least:"0" doc:"records announced by the export"`
	Written     int64 `json:"written" least:"0"`
	Expired     int64 `json:"expired" least:"0"`
	Newer       int64 `json:"newer" least:"0" doc:"records with a later time here"`
	Collections int64 `json:"collections" least:"0"`

	// text is the notice; note says that a storage user was created, or why the label is not imported.
	text, note string
}

// Notice is "" if the import failed before its first record.
func (o importOutput) Notice() string { return o.text }

// Note is "" if nothing special happened.
func (o importOutput) Note() string { return o.note }

// imports writes an export to the user that find returns for its header. After a failure with written records, the
// error says how to continue.
func (s *Accounts) imports(
	ctx context.Context, file operate.Body, options ImportOptions, t *target, find func(ExportedUser) (*tokenserver.User, error),
) (out importOutput, err error) {
	if !s.storage.IsOpen() {
		return out, errNoStorage
	}
	done, err := s.storage.Import(ctx, file, options, find)
	out = importOutput{
		Records: done.Records, Total: done.Total, Written: done.Written, Expired: done.Expired, Newer: done.Newer, Collections: done.Collections, note: t.created,
	}
	if done.Records > 0 || err == nil {
		newer := ""
		if options.Preserve {
			newer = fmt.Sprintf(", later here: %d", done.Newer)
		}
		out.text = fmt.Sprintf("records: %d of %d, written: %d, expired: %d%s; collections: %d", done.Records, done.Total, done.Written, done.Expired, newer, done.Collections)
	}
	if err != nil && ctx.Err() != nil {
		err = operate.ErrStopped
	}
	if err != nil && done.Written > 0 {
		err = fmt.Errorf("%w\nthe import is not complete: import the same file again with --merge, before browsers sync", err)
	}
	return out, err
}

// target finds or creates the storage user that an account's import writes to, and keeps the header's label until the
// records are written.
type target struct {
	*Accounts
	// created says that find created a storage user; "" otherwise.
	created string
	user    *tokenserver.User
	label   string
}

// setLabel labels the account as in the export, unless it has a label. A label that an operator could not set is left
// out, and the note says so: the records do not depend on it, so it must not fail the import.
func (t *target) setLabel(ctx context.Context) (note string, err error) {
	if t.label == "" {
		return "", nil
	}
	l := tokenserver.Label{Text: t.label}
	if invalid := l.Check(); invalid != nil {
		return "the label in the export is not imported: " + errcode.Message(invalid), nil
	}
	a := t.user.Account()
	labels, err := t.opened.LabelsOf(ctx, []string{a.FxAUID})
	if err != nil || labels[a.FxAUID].Text != "" {
		return "", err
	}
	return "", t.opened.SetLabel(ctx, a, t.label)
}

// find returns the current storage user of the account name, or creates it with the exported keys. It returns
// errcode.Conflict if the account could not decrypt the records: they belong to another account, or were encrypted with
// other keys.
func (t *target) find(ctx context.Context, name string, from ExportedUser) (u *tokenserver.User, err error) {
	defer func() { t.user, t.label = u, from.Label }()
	users, err := t.usersOf(ctx, name)
	if errcode.Is(err, errcode.NotFound) && from.Account != "" {
		return t.adopt(ctx, name, from)
	}
	if err != nil {
		return nil, err
	}
	u = &users[0]
	if from.Account != "" && from.Account != u.Account().FxAUID {
		return nil, errcode.Newf(errcode.Conflict, "the export belongs to account %s, whose records %s cannot decrypt", from.Account, u.Account().FxAUID)
	}
	if from.Keys != "" {
		keys, err := tokenserver.ParseKeyID(from.Keys)
		if err != nil {
			return nil, errBadKeys
		}
		if keys.ClientState != u.ClientState {
			return nil, errcode.New(errcode.Conflict, "the account's keys differ from the export's, so its browsers could not decrypt the records")
		}
	}
	return u, nil
}

// errBadKeys names the header's line, because it is about the file.
var errBadKeys = errcode.New(errcode.Invalid, "line 1: keys: expected the id of an account's keys")

// adopt creates the storage user of an account that never signed in here, so that its browsers find the records at
// their first sign-in. name must be the exported account.
func (t *target) adopt(ctx context.Context, name string, from ExportedUser) (*tokenserver.User, error) {
	s := t.opened
	a, err := s.ParseAccount(name)
	if err != nil {
		return nil, err
	}
	if from.Account != a.FxAUID {
		return nil, errcode.Newf(errcode.Conflict, "the export belongs to account %s, not %s", from.Account, a.FxAUID)
	}
	keys, err := tokenserver.ParseKeyID(from.Keys)
	if err != nil || from.Generation < 0 {
		return nil, errBadKeys
	}
	u, err := s.Adopt(ctx, a, from.Generation, keys)
	if err != nil {
		return nil, fmt.Errorf("create the storage user for account %s: %w", a.FxAUID, err)
	}
	if !s.IsLocal(&u) {
		return nil, elsewhere(a, &u)
	}
	t.created = fmt.Sprintf("created storage user %d for account %s", u.UID, service.Printable(a.FxAUID))
	return &u, nil
}
