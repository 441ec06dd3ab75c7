package replica

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/testdb"
)

// TestCrashAtEachStep kills the server at each step in turn. Points published before and after the next start can
// be restored. `make check` tries another quarter of the steps each time.
func TestCrashAtEachStep(t *testing.T) {
	testdb.CheckOnly(t, "it restarts the program hundreds of times")
	testdb.Sequential(t)
	t.Parallel()
	var crashed []string
	first, every := 0, 1
	if !testdb.Soaking() {
		first, every = rand.IntN(4), 4
	}
	for at := first; ; at += every {
		name := crashAt(t, at)
		if name == "" {
			break
		}
		crashed = append(crashed, name)
	}
	for _, want := range []string{
		"spool", "send", "sent", "publish", "published", "send snapshot", "sent snapshot", "merged", "delete", "send body", "sent body", "delete body",
	} {
		if !slices.Contains(crashed, want) && every == 1 {
			t.Errorf("no crash at the step %q", want)
		}
	}
	t.Logf("crashed at %d steps", len(crashed))
}

// crashAt returns the step's name, or "" if there are fewer steps.
func crashAt(t *testing.T, at int) (name string) {
	t.Helper()
	w := newToyWorld(t, testdb.MemoryFolder(t), func(o *Options) { o.Keep = time.Hour })
	step := 0
	w.fault = func(point string) error {
		if step++; step-1 == at {
			name = point
		}
		if name != "" {
			return errors.New("killed") // later steps do nothing
		}
		return nil
	}
	random := rand.NewChaCha8([32]byte{}) // a fixed seed, so that the steps are always the same
	for i := range 4 {
		for _, file := range names {
			for range 8 {
				body := make([]byte, 3000)
				_, _ = random.Read(body)
				w.must(w.exec(file, `INSERT INTO t (body) VALUES (?)`, body))
			}
		}
		w.toys.put([]byte("toy"))
		w.clock.Advance(time.Duration(i) * 30 * time.Minute)
		// Errors are expected; the points are checked after the crash.
		if w.capture() != nil || w.upload() != nil || w.r.ship(t.Context()) != nil || w.r.maintain(t.Context()) != nil || w.r.bodies.reconcile(t.Context()) != nil {
			break
		}
		w.toys.remove(1)
	}
	w.check()
	w.fault = nil
	w.kill()
	w.must(errors.Join(w.capture(), w.upload(), w.ship()))
	w.maintain()
	w.reconcile()
	w.close()
	return name
}

type distant struct {
	Target
	delay time.Duration
}

func (d distant) Put(ctx context.Context, name string, body io.Reader) error {
	clock.Sleep(ctx, d.delay)
	return d.Target.Put(ctx, name, body)
}

// BenchmarkLag measures how long a write may be missing from the last restore point, with 100 writes a second and a
// target 50 ms away.
func BenchmarkLag(b *testing.B) {
	root := b.TempDir()
	l := newLoad(b, root)
	r := New(Options{
		Server: "server", Key: testKey, Files: map[string]*sqlitedb.DB{"one.db": l.db}, Target: distant{Folder(filepath.Join(root, "target")), 50 * time.Millisecond},
		Spool: filepath.Join(root, "spool"), Clock: clock.System, Log: slog.New(slog.DiscardHandler),
	})
	r.Start()
	defer r.Close(context.Background())
	var lags []float64
	for b.Loop() {
		for i := range 2000 {
			err := l.db.Write(context.Background(), "put", func(c *sqlite.Conn) error {
				return sqlitedb.Exec(c, `INSERT OR REPLACE INTO r VALUES (?, ?, randomblob(500))`, i%100, time.Now().UnixNano())
			})
			if err != nil {
				b.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
			if status := r.Status(); !status.Since.IsZero() {
				lags = append(lags, status.Lag(time.Now()).Seconds())
			}
		}
	}
	slices.Sort(lags)
	b.ReportMetric(lags[len(lags)/2], "p50-s")
	b.ReportMetric(lags[len(lags)*99/100], "p99-s")
	b.ReportMetric(lags[len(lags)-1], "max-s")
}

// TestForeignRestart lets another process write, checkpoint and restart the WAL just before the replica would. The
// first salt then grows by 1, as after the replica's own restart, but a frame is lost.
func TestForeignRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir(), nil)
	t.Cleanup(w.close)
	s := w.r.sources[0]
	s.least = 1 << 30 // so that no snapshot is made instead
	w.must(w.capture())
	w.must(w.exec(s.name, insert, 100, 3000))
	calls := 0
	w.fault = func(point string) error {
		if point != "spool" {
			return nil
		}
		switch calls++; calls {
		case 1: // gives the replica a change to capture while the writer pauses
			return w.exec(s.name, insert, 1, 100)
		case 2:
			w.must(s.follow.Release())
			return w.other(s.name, func(c *sqlite.Conn) error {
				for _, sql := range []string{
					`UPDATE t SET body = 'lost' WHERE id = (SELECT max(id) FROM t)`, `PRAGMA wal_checkpoint(TRUNCATE)`,
					`INSERT INTO t (body) VALUES (x'00')`,
				} {
					if err := sqlitex.ExecuteTransient(c, sql, nil); err != nil {
						return err
					}
				}
				return nil
			})
		}
		return nil
	}
	salt := s.at.header.salt[0]
	err := w.capture()
	w.fault = nil
	if err != nil || calls != 2 {
		t.Fatalf("%d steps, %v", calls, err)
	}
	wal, err := openWAL(w.path(s.name) + "-wal")
	w.must(err)
	h, err := readHeader(wal)
	w.must(errors.Join(err, wal.Close()))
	if h.salt[0] != salt+1 {
		t.Fatalf("the first salt was %d and is %d: the test proves nothing", salt, h.salt[0])
	}
	w.must(w.capture())
	w.must(w.ship())
	if w.states[w.r.newest().Files[s.name]] != w.dump(s.name) || s.compared < 2 {
		t.Errorf("the point is not what the database is, after %d comparisons", s.compared)
	}
}

func TestFailedComparison(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir(), nil)
	t.Cleanup(w.close)
	s := w.r.sources[0]
	w.must(w.exec(s.name, insert, 20, 3000))
	w.must(w.capture())
	w.must(s.follow.Release())
	w.must(w.exec(s.name, `UPDATE t SET body = 'lost'`))
	w.must(w.other(s.name, func(c *sqlite.Conn) error {
		return sqlitex.ExecuteTransient(c, `PRAGMA wal_checkpoint(TRUNCATE)`, nil)
	}))
	full := errors.New("the disk is full")
	w.fault = func(string) error { return full }
	for range 3 {
		if err := w.capture(); !errors.Is(err, full) {
			t.Fatalf("the comparison does not fail: %v", err)
		}
		w.must(w.exec(s.name, insert, 1, 100))
	}
	w.fault = nil
	w.must(w.capture())
	w.must(w.ship())
	if w.states[w.r.newest().Files[s.name]] != w.dump(s.name) {
		t.Error("the point is not what the database is")
	}
}
