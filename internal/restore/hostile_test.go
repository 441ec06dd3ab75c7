package restore

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/testdb"
)

// backupFolderIn returns a folder as backup makes it: a database, secrets and a body. A file that is not part
// of the backup is next to it.
func backupFolderIn(t *testing.T, root string) (folder string) {
	t.Helper()
	folder = filepath.Join(root, "backup")
	for _, dir := range []string{"buckets/v2", "buckets.nodes/east,1/v2"} {
		if err := os.MkdirAll(filepath.Join(folder, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	db, err := sqlitedb.Open(t.Context(), sqlitedb.Options{Path: filepath.Join(folder, "buckets.db"), Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"backup/secrets.toml": "[buckets]\nkey_secret = \"s\"\n", "backup/buckets/v2/body": "body", "backup/buckets.nodes/east,1/v2/other": "other", "secret": "secret",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// restored restores a folder and reads bodies, and fails after half a minute.
func restored(t *testing.T, from, data string, bodies ...string) (read []string, err error) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err = Run(t.Context(), &Request{From: from, Data: data, Clock: clock.System, Finish: func(ctx context.Context, f *Finishing) error {
			for _, name := range bodies {
				body, err := f.Open(ctx, "buckets", name, 100)
				if err != nil {
					return err
				}
				text, err := io.ReadAll(io.LimitReader(body, 100))
				read = append(read, string(text))
				if err := errors.Join(err, body.Close()); err != nil {
					return err
				}
			}
			return nil
		}})
	}()
	select {
	case <-done:
	case <-time.After(testdb.Patient(30 * time.Second)):
		t.Fatal("the restore waits")
	}
	return read, err
}

// TestHostileFolder restores folders in which files are links, FIFOs, devices or folders, and bodies whose names leave
// the folder. Each restore fails, reads and changes nothing outside, and leaves nothing.
func TestHostileFolder(t *testing.T) {
	t.Parallel()
	good := t.TempDir()
	data := filepath.Join(good, "deep", "data")
	read, err := restored(t, backupFolderIn(t, good), data, "v2/body", "v2/other")
	if err != nil || strings.Join(read, " ") != "body other" {
		t.Fatalf("a good folder: %q, %v", read, err)
	}
	for name, mode := range map[string]os.FileMode{"": os.ModeDir | 0o700, "buckets.db": 0o600, "secrets.toml": 0o600} {
		if info, err := os.Stat(filepath.Join(data, name)); err != nil || info.Mode() != mode {
			t.Errorf("restored %q: %v, %v", name, info, err)
		}
	}
	kinds := map[string]func(root, path string) error{
		"a link to a file":   func(root, path string) error { return os.Symlink(filepath.Join(root, "secret"), path) },
		"a relative link":    func(_, path string) error { return os.Symlink("../../../secret", path) },
		"a link to itself":   func(_, path string) error { return os.Symlink(path, path) },
		"a link to a device": func(_, path string) error { return os.Symlink("/dev/zero", path) },
		"a FIFO":             func(_, path string) error { return syscall.Mkfifo(path, 0o600) },
	}
	for kind, plant := range kinds {
		for _, name := range []string{"buckets.db", "secrets.toml", "buckets/v2/body", "buckets/v2", "buckets", "buckets.nodes"} {
			hostile(t, kind+" as "+name, func(root, backup string) error {
				path := filepath.Join(backup, name)
				return errors.Join(os.RemoveAll(path), plant(root, path))
			}, "v2/body", "v2/other")
		}
	}
	for _, name := range testdb.HostileNames {
		hostile(t, "a hostile name", func(string, string) error { return nil }, name)
	}
}

func hostile(t *testing.T, what string, plant func(root, backup string) error, bodies ...string) {
	t.Helper()
	root := t.TempDir()
	backup, data := backupFolderIn(t, root), filepath.Join(root, "deep", "data")
	if err := errors.Join(plant(root, backup), os.Mkdir(filepath.Dir(data), 0o700)); err != nil {
		t.Fatal(err)
	}
	before := testdb.Tree(t, root)
	if read, err := restored(t, backup, data, bodies...); err == nil {
		t.Errorf("%s: restored, and read %q", what, read)
	}
	testdb.WantTree(t, what, before, testdb.Tree(t, root))
}
