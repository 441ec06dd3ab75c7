//test:unraced compiling Google's clients for the race detector takes a minute
//test:check linking the clouds' clients takes seconds

package cloudtarget_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	"holdfast/internal/replica"
	"holdfast/internal/replica/cloudtarget"
)

// targets returns all targets, including an S3 server if TEST_NODE_URL is set.
func targets(t *testing.T) map[string]replica.Target {
	t.Helper()
	open := func(address string) replica.Target {
		b, err := cloudtarget.Open(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	all := map[string]replica.Target{"folder": replica.Folder(filepath.Join(t.TempDir(), "target")), "memory": open("mem://")}
	if address := os.Getenv("TEST_NODE_URL"); address != "" {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Set("prefix", "holdfast-test-"+rand.Text()+"/")
		u.RawQuery = q.Encode()
		all["server"] = open(u.String())
	}
	return all
}

type failing struct{ left int }

var errRead = errors.New("the source fails")

func (f *failing) Read(p []byte) (int, error) {
	if f.left == 0 {
		return 0, errRead
	}
	n := min(len(p), f.left)
	f.left -= n
	return n, nil
}

func TestTargets(t *testing.T) {
	t.Parallel()
	for name, target := range targets(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := target.Put(t.Context(), "x", strings.NewReader("")); name == "folder" && !errcode.Is(err, errcode.Unavailable) {
				t.Errorf("a folder without the marker, whose disk may not be mounted: %v", err)
			}
			marker := errors.Join(target.Put(t.Context(), "holdfast-replica.json", strings.NewReader("{}")), target.Delete(t.Context(), "x"))
			if marker != nil {
				t.Fatal(marker)
			}
			checkPut(t, target)
			checkFailedPut(t, target)
			checkList(t, target)
			checkDelete(t, target)
		})
	}
}

func checkPut(t *testing.T, target replica.Target) {
	t.Helper()
	for _, size := range []int{0, 1, 64 << 10, 1 << 20, 1<<20 + 1, 12 << 20} {
		content := make([]byte, size)
		_, _ = rand.Read(content)
		for range 2 {
			if err := target.Put(t.Context(), "files/a/1", bytes.NewReader(content)); err != nil {
				t.Fatalf("put %d bytes: %v", size, err)
			}
		}
		if got, err := read(t.Context(), target, "files/a/1"); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes are read as %d, %v", size, len(got), err)
		}
	}
}

func checkFailedPut(t *testing.T, target replica.Target) {
	t.Helper()
	before, _ := read(t.Context(), target, "files/a/1")
	for _, size := range []int{0, 100, 1 << 20, 11 << 20} {
		for _, name := range []string{"files/a/1", "files/b/1"} {
			if err := target.Put(t.Context(), name, &failing{size}); err == nil {
				t.Errorf("a source that fails after %d bytes is written", size)
			}
		}
	}
	if after, err := read(t.Context(), target, "files/a/1"); err != nil || !bytes.Equal(before, after) {
		t.Errorf("a failed Put changes the object: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := target.Put(ended, "files/b/1", strings.NewReader("x")); err == nil {
		t.Error("Put does not return when its context ends")
	}
}

func checkList(t *testing.T, target replica.Target) {
	t.Helper()
	for _, name := range []string{"files/a/2", "files/ab/1", "holdfast-replica.json"} {
		if err := target.Put(t.Context(), name, strings.NewReader(name)); err != nil {
			t.Fatal(err)
		}
	}
	for prefix, want := range map[string][]string{
		"": {"files/a/1", "files/a/2", "files/ab/1", "holdfast-replica.json"}, "files/a/": {"files/a/1", "files/a/2"},
		"files/a": {"files/a/1", "files/a/2", "files/ab/1"}, "files/b/": nil, "nothing/": nil,
	} {
		if got, err := target.List(t.Context(), prefix); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q lists %v, %v", prefix, got, err)
		}
	}
}

func checkDelete(t *testing.T, target replica.Target) {
	t.Helper()
	for range 2 {
		if err := target.Delete(t.Context(), "files/a/1"); err != nil {
			t.Errorf("delete: %v", err)
		}
	}
	if _, err := read(t.Context(), target, "files/a/1"); !errcode.Is(err, errcode.NotFound) {
		t.Errorf("a deleted object: %v", err)
	}
}

func read(ctx context.Context, target replica.Target, name string) ([]byte, error) {
	r, err := target.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func TestReplica(t *testing.T) {
	t.Parallel()
	for name, target := range targets(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			db, err := sqlitedb.Open(t.Context(), sqlitedb.Options{Path: filepath.Join(root, "a.db")})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			r := replica.New(replica.Options{
				Server: "server", Key: testKey, Files: map[string]*sqlitedb.DB{"a.db": db}, Target: target,
				Spool: filepath.Join(root, "spool"), Clock: clock.System, Log: slog.New(slog.DiscardHandler),
			})
			for _, sql := range []string{`CREATE TABLE t (n INTEGER)`, `INSERT INTO t VALUES (1)`, `INSERT INTO t VALUES (20)`} {
				if err := db.Write(t.Context(), "w", func(c *sqlite.Conn) error { return sqlitedb.Exec(c, sql) }); err != nil {
					t.Fatal(err)
				}
				if err := r.Sync(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			done, err := replica.Restore(t.Context(), replica.Restoring{Target: target, Known: replica.Names{Databases: []string{"a.db"}}, Trust: testTrust, Into: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			c, err := sqlite.OpenConn(done.Files[0], sqlite.OpenReadWrite)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			sum, _, err := sqlitedb.QueryRow(c, `SELECT sum(n) FROM t`, func(s *sqlite.Stmt) int { return s.ColumnInt(0) })
			if err != nil || sum != 21 {
				t.Errorf("the restored database has %d, %v", sum, err)
			}
		})
	}
}

func TestSchemes(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "file:///x", "http://b", "s3:\x00", "s4://b"} {
		if _, err := cloudtarget.Open(t.Context(), address); !errcode.Is(err, errcode.Invalid) {
			t.Errorf("%q: %v", address, err)
		}
	}
}

var (
	testKey   = replica.NewSigningKey()
	testTrust = replica.Trust{Signers: []replica.Signer{{Key: testKey.Public()}}}
)
