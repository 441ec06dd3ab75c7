package sqlitedb_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"holdfast/internal/db/sqlitedb"
)

func wantInUse(t *testing.T, what string, err error) {
	t.Helper()
	inUse, ok := errors.AsType[*sqlitedb.InUseError](err)
	if !ok || inUse.Holder != fmt.Sprintf("process %d", os.Getpid()) {
		t.Errorf("%s: %v", what, err)
	}
}

func TestLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link, folder := filepath.Join(dir, "x.db"), filepath.Join(dir, "link.db"), filepath.Join(t.TempDir(), "folder")
	for name, target := range map[string]string{link: path, folder: dir} {
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := sqlitedb.InUse(path); err != nil {
		t.Errorf("before the first lock: %v", err)
	}
	lock, err := sqlitedb.AcquireLock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlitedb.Open(t.Context(), sqlitedb.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, name := range []string{path, link, filepath.Join(folder, "x.db")} {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		_, err := sqlitedb.AcquireLock(ctx, name)
		wantInUse(t, name, err)
		wantInUse(t, "asked for "+name, sqlitedb.InUse(name))
		if !lock.Locks(name) {
			t.Errorf("the lock is not that of %s", name)
		}
	}
	other, err := sqlitedb.AcquireLock(t.Context(), filepath.Join(dir, "y.db"))
	if err != nil {
		t.Fatalf("the lock of another file: %v", err)
	}
	if other.Locks(path) {
		t.Error("two files have the same lock")
	}
	if err := errors.Join(lock.Release(), other.Release()); err != nil {
		t.Fatal(err)
	}
	if err := sqlitedb.InUse(path); err != nil {
		t.Errorf("after the release: %v", err)
	}
	again, err := sqlitedb.AcquireLock(t.Context(), link)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
}

func TestLockIsAwaited(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	lock, err := sqlitedb.AcquireLock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		lock *sqlitedb.Lock
		err  error
	}
	begun, second := make(chan struct{}), make(chan result, 1)
	go func() {
		close(begun)
		l, err := sqlitedb.AcquireLock(t.Context(), path)
		second <- result{l, err}
	}()
	<-begun
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	r := <-second
	if r.err != nil {
		t.Fatal(r.err)
	}
	if err := r.lock.Release(); err != nil {
		t.Error(err)
	}
}

func TestLockFileIsForeign(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty": "", "no number": "x y\n", "long": "1 " + string(make([]byte, 4096)), "no line": "7 \x1b[2J\n", "another host": "7 elsewhere.example\n",
	} {
		path := filepath.Join(t.TempDir(), "x.db")
		if err := os.WriteFile(path+".lock", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		lock, err := sqlitedb.AcquireLock(t.Context(), path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := os.WriteFile(path+".lock", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		want := path + " is in use by another server"
		if name == "another host" {
			want += ` (process 7 on host elsewhere.example)`
		}
		if err := sqlitedb.InUse(path); err == nil || err.Error() != want {
			t.Errorf("%s: %v", name, err)
		}
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
	}
	path := filepath.Join(t.TempDir(), "x.db")
	if err := os.Mkdir(path+".lock", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlitedb.AcquireLock(t.Context(), path); err == nil || errors.As(err, new(*sqlitedb.InUseError)) {
		t.Errorf("a lock file that is a folder: %v", err)
	}
}
