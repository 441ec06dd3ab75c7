package replica

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/testdb"
)

type acknowledged struct {
	mu    sync.Mutex
	times []time.Time
}

// TestConcurrent checks that, despite other writers, processes and checkpoints, each restore point contains every
// write acknowledged before its time, and only whole transactions.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	testdb.CheckOnly(t, "it writes for seconds")
	root := t.TempDir()
	path := filepath.Join(root, "one.db")
	db, err := sqlitedb.Open(t.Context(), sqlitedb.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	schema := func(c *sqlite.Conn) error {
		return sqlitex.ExecuteScript(c, `CREATE TABLE w (writer INTEGER, n INTEGER, body BLOB, PRIMARY KEY (writer, n)) WITHOUT ROWID;
			CREATE TABLE last (writer INTEGER PRIMARY KEY, n INTEGER)`, nil)
	}
	if err := db.WriteAlone(t.Context(), "schema", schema); err != nil {
		t.Fatal(err)
	}
	target := Folder(filepath.Join(root, "target"))
	r := New(Options{
		Server: "server", Key: testKey, Files: map[string]*sqlitedb.DB{"one.db": db}, Target: target, Spool: filepath.Join(root, "spool"),
		Interval: 10 * time.Millisecond, Clock: clock.System, Log: slog.New(slog.DiscardHandler),
	})
	r.sources[0].frames = 50
	r.Start()
	const writers, foreign = 3, 1
	acks := make([]acknowledged, writers+foreign)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var running sync.WaitGroup
	for i := range acks {
		running.Go(func() { acks[i].write(ctx, t, db, path, i, i >= writers) })
	}
	running.Go(func() { disturb(ctx, path) })
	running.Wait()
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkPoints(t, target, acks)
}

func (a *acknowledged) write(ctx context.Context, t *testing.T, db *sqlitedb.DB, path string, writer int, foreign bool) {
	change := func(c *sqlite.Conn, n int) error {
		if err := sqlitedb.Exec(c, `INSERT INTO w VALUES (?, ?, randomblob(?))`, writer, n, 100+n%5000); err != nil {
			return err
		}
		return sqlitedb.Exec(c, `INSERT OR REPLACE INTO last VALUES (?, ?)`, writer, n)
	}
	for n := 0; ctx.Err() == nil; {
		var err error
		if foreign {
			err = otherProcess(path, func(c *sqlite.Conn) error { return change(c, n) })
		} else {
			err = db.Write(context.Background(), "w", func(c *sqlite.Conn) error { return change(c, n) })
		}
		if err != nil {
			if !foreign {
				t.Error(err)
				return
			}
			continue // database busy
		}
		a.mu.Lock()
		a.times = append(a.times, time.Now())
		a.mu.Unlock()
		n++
	}
}

func otherProcess(path string, fn func(*sqlite.Conn) error) (err error) {
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetBusyTimeout(time.Second)
	end, err := sqlitex.ImmediateTransaction(c)
	if err != nil {
		return err
	}
	defer end(&err)
	return fn(c)
}

func disturb(ctx context.Context, path string) {
	for i := 0; ctx.Err() == nil; i++ {
		c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
		if err != nil {
			continue
		}
		c.SetBusyTimeout(time.Millisecond)
		mode := []string{"PASSIVE", "FULL", "RESTART", "TRUNCATE"}[i%4]
		_ = sqlitex.ExecuteTransient(c, `PRAGMA wal_checkpoint(`+mode+`)`, nil)
		_ = c.Close()
		clock.Sleep(ctx, 5*time.Millisecond)
	}
}

func checkPoints(t *testing.T, target Target, acks []acknowledged) {
	t.Helper()
	points, err := listPoints(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d points", len(points))
	if len(points) < 3 {
		t.Fatalf("only %d restore points", len(points))
	}
	every := max(1, len(points)/10)
	for i := len(points) - 1; i >= 0; i -= every {
		into := t.TempDir()
		done, err := Restore(t.Context(), Restoring{Target: target, Known: testNames, Trust: testTrust, Into: into, At: points[i].time})
		if err != nil {
			t.Fatalf("point %d: %v", i, err)
		}
		for writer := range acks {
			rows, last := restoredWrites(t, done.Files[0], writer)
			if rows != last+1 {
				t.Errorf("point %d: writer %d has %d rows, the last is %d", i, writer, rows, last)
			}
			for n, at := range acks[writer].times {
				if at.Before(done.Point.Time) && n > last {
					t.Fatalf("point %d: write %d of writer %d was acknowledged before %v and is missing", i, n, writer, done.Point.Time)
				}
			}
		}
	}
}

func restoredWrites(t *testing.T, path string, writer int) (rows, last int) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	one := func(sql string) int {
		n, _, err := sqlitedb.QueryRow(c, fmt.Sprintf(sql, writer), func(s *sqlite.Stmt) int { return s.ColumnInt(0) })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return one(`SELECT count(*) FROM w WHERE writer = %d`), one(`SELECT coalesce(max(n), -1) FROM last WHERE writer = %d`)
}
