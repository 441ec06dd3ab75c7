package app

import (
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"testing"

	"holdfast/internal/db/engine"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/fserror"
	"holdfast/internal/secrets"
)

// opening is what Open does.
type opening struct {
	opens   bool // opens a folder without a database
	files   bool // makes the database file
	saved   bool // saves secrets
	secrets bool // needs the secrets file
	used    bool // needs a folder that a server has used
	tables  bool // makes the tables of an existing SQLite file
	locks   bool // keeps another server away
	info    bool // logs at level info
	server  bool // the server migrates database servers
}

// TestModes states the changes that Open makes in each mode: in a new data folder, and in a folder whose database has no tables
// yet.
func TestModes(t *testing.T) {
	t.Parallel()
	const name = "extstorage"
	all := map[string]struct {
		mode       Mode
		newSecrets bool
		want       opening
	}{
		"serve":                  {ModeServe, false, opening{opens: true, files: true, saved: true, tables: true, locks: true, info: true}},
		"serve --new-secrets":    {ModeServe, true, opening{opens: true, files: true, saved: true, tables: true, locks: true, info: true}},
		"serve --migrate":        {ModeServeMigrating, false, opening{opens: true, files: true, saved: true, tables: true, locks: true, info: true, server: true}},
		"migrate":                {ModeMigrate, false, opening{used: true}},
		"migrate --new-secrets":  {ModeMigrate, true, opening{used: true}},
		"an operation":           {ModeOperate, false, opening{secrets: true, tables: true}},
		"backup":                 {ModeKeepSchema, false, opening{secrets: true}},
		"check":                  {ModeCheck, false, opening{}},
		"restore":                {ModeRestore, false, opening{opens: true, tables: true}}, // without the missing service
		"backup verify":          {ModeReadBackup, false, opening{}},
		"copy, source":           {ModeCopyRead, false, opening{}},
		"copy, target":           {ModeCopyWrite, false, opening{opens: true, files: true, tables: true, locks: true}},
		"copy --dry-run, target": {ModeCopyDryRun, false, opening{opens: true}}, // with a temporary database
	}
	tested := map[Mode]bool{}
	for command, tc := range all {
		tested[tc.mode] = true
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			got := openingIn(t, name, tc.mode, tc.newSecrets)
			if got != tc.want {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
	for mode := range modes {
		if !tested[mode] {
			t.Errorf("mode %d is not tested", mode)
		}
	}
}

// openingIn opens a service in a new data folder, and in a folder with secrets and a database without tables.
func openingIn(t *testing.T, name string, mode Mode, newSecrets bool) (got opening) {
	t.Helper()
	options := func(data string) Options {
		cfg, _, err := Load(Services(), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		return Options{Config: cfg.Only(name), Data: data, LogTo: io.Discard, Mode: mode, NewSecrets: newSecrets}
	}
	empty := t.TempDir()
	a, err := Open(t.Context(), options(empty))
	_, missing := errors.AsType[*engine.MissingError](err)
	got.opens = err == nil
	_, got.used = errors.AsType[*unusedError](err)
	got.secrets = err != nil && !missing && !got.used
	got.files, got.saved = exists(t, empty, engine.FileName(name)), exists(t, empty, secrets.File)
	if a != nil {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}

	got.seeDatabase(t, name, options)
	return got
}

func exists(t *testing.T, path ...string) bool {
	t.Helper()
	found, err := fserror.Exists(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// seeDatabase sees the effects in a folder with secrets and a database without tables.
func (got *opening) seeDatabase(t *testing.T, name string, options func(data string) Options) {
	t.Helper()
	data := t.TempDir()
	path := filepath.Join(data, engine.FileName(name))
	db, err := sqlitedb.Open(t.Context(), sqlitedb.Options{Path: path})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	made, err := secrets.Complete(data, secrets.Create, options(data).Config.generated())
	if err != nil || !made.NewFile {
		t.Fatalf("%+v, %v", made, err)
	}
	a, err := Open(t.Context(), options(data))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	pending, err := a.databases()[0].Pending(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got.tables = len(pending) == 0
	lock, err := sqlitedb.AcquireLock(t.Context(), path)
	if _, got.locks = errors.AsType[*sqlitedb.InUseError](err); !got.locks {
		if err != nil {
			t.Fatal(err)
		}
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
	}
	got.info = a.log.Enabled(t.Context(), slog.LevelInfo)
	got.server = a.may.migrateServers
}

// TestRefusedModes checks that a caller must name a mode, and that only modes that save secrets take new ones.
func TestRefusedModes(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{}, {Mode: ModeCopyDryRun + 1}, {Mode: ModeOperate, NewSecrets: true}, {Mode: ModeCheck, NewSecrets: true}} {
		cfg, _, err := Load(Services(), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		o.Config, o.Data, o.LogTo = cfg, t.TempDir(), io.Discard
		if _, err := Open(t.Context(), o); err == nil {
			t.Errorf("mode %d opened, new secrets: %t", o.Mode, o.NewSecrets)
		}
	}
}
