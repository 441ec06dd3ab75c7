package sqlitedb_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
)

func followed(t *testing.T) (*sqlitedb.DB, *sqlitedb.Follower, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := sqlitedb.Open(t.Context(), sqlitedb.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	insertRow(t, db, `CREATE TABLE t (id INTEGER PRIMARY KEY, body BLOB)`)
	f, err := db.Follow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.Hold(); err != nil {
		t.Fatal(err)
	}
	return db, f, path
}

func insertRow(t *testing.T, db *sqlitedb.DB, sql string) {
	t.Helper()
	err := db.Write(t.Context(), "write", func(c *sqlite.Conn) error { return sqlitedb.Exec(c, sql) })
	if err != nil {
		t.Fatal(err)
	}
}

// TestFollowedLog checks that the WAL keeps all frames while it is followed, despite other processes.
func TestFollowedLog(t *testing.T) {
	t.Parallel()
	db, f, path := followed(t)
	before, err := f.Log()
	if err != nil {
		t.Fatal(err)
	}
	for range 12 {
		insertRow(t, db, `INSERT INTO t (body) VALUES (zeroblob(2000000))`)
	}
	other, err := sqlitedb.Open(t.Context(), sqlitedb.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	insertRow(t, other, `INSERT INTO t (body) VALUES (randomblob(1000))`)
	start := time.Now()
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("a command waits %v for the follower", took)
	}
	after, err := f.Log()
	if err != nil || after.Committed < before.Committed+12*480 {
		t.Errorf("the log had %+v and has %+v, %v", before, after, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for range 12 {
		insertRow(t, db, `INSERT INTO t (body) VALUES (zeroblob(2000000))`)
	}
	info, err := os.Stat(path + "-wal")
	if err != nil || info.Size() > 64<<20 {
		t.Errorf("without the follower, the WAL has %v, %v", info.Size(), err)
	}
}

// TestLogWhileWriting checks that the frame count never falls while commits add frames.
func TestLogWhileWriting(t *testing.T) {
	t.Parallel()
	db, f, _ := followed(t)
	ctx, stop := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writing.Go(func() {
		for range 3000 {
			insertRow(t, db, `INSERT INTO t (body) VALUES (zeroblob(10))`)
		}
		stop()
	})
	before, calls := 0, 0
	for ctx.Err() == nil {
		l, err := f.Log()
		if err != nil || l.Committed < before {
			t.Errorf("call %d: %d frames after %d, %v", calls, l.Committed, before, err)
			break
		}
		before = l.Committed
		calls++
	}
	writing.Wait()
	t.Logf("%d calls, %d frames", calls, before)
}

// TestRestartOfTheLog checks that Restart does nothing if the WAL was not read completely, was changed, or is needed
// by a reader.
func TestRestartOfTheLog(t *testing.T) {
	t.Parallel()
	db, f, _ := followed(t)
	length := func() int {
		l, err := f.Log()
		if err != nil {
			t.Fatal(err)
		}
		return l.Committed
	}
	restart := func(read int, intact bool) bool {
		done, err := f.Restart(t.Context(), func() (int, error) { return read, nil }, func() bool { return intact })
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	insertRow(t, db, `INSERT INTO t (body) VALUES (randomblob(100000))`)
	frames := length()
	if restart(frames-1, true) || restart(frames, false) || length() != frames {
		t.Fatal("it begins again without having been read")
	}
	reader, err := db.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Read(func(c *sqlite.Conn) error {
		return sqlitedb.ForEach(c, `SELECT 1 FROM t`, func(*sqlite.Stmt) error { return nil })
	}); err != nil {
		t.Fatal(err)
	}
	insertRow(t, db, `INSERT INTO t (body) VALUES (randomblob(100))`)
	frames = length()
	if restart(frames, true) || length() != frames {
		t.Error("it begins again although a reader needs it")
	}
	reader.Release()
	if !restart(frames, true) || length() != 1 {
		t.Errorf("it does not begin again: %d frames", length())
	}
}
