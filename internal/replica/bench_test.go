package replica

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
)

type load struct {
	db   *sqlitedb.DB
	r    *Replica
	path string
	next atomic.Int64
}

func newLoad(t testing.TB, root string) *load {
	l := &load{path: filepath.Join(root, "one.db")}
	var err error
	if l.db, err = sqlitedb.Open(context.Background(), sqlitedb.Options{Path: l.path}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.db.Close() })
	schema := func(c *sqlite.Conn) error {
		return sqlitex.ExecuteScript(c, `CREATE TABLE r (owner INTEGER, id TEXT, body TEXT, PRIMARY KEY (owner, id)) WITHOUT ROWID`, nil)
	}
	if err := l.db.WriteAlone(context.Background(), "schema", schema); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *load) replicate(root string) {
	l.r = New(Options{
		Server: "server", Key: testKey, Files: map[string]*sqlitedb.DB{"one.db": l.db}, Target: Folder(filepath.Join(root, "target")),
		Spool: filepath.Join(root, "spool"), Clock: clock.System, Log: slog.New(slog.DiscardHandler),
	})
	l.r.Start()
}

func (l *load) window(t testing.TB, d time.Duration) (writes int) {
	const writers = 16
	body := string(make([]byte, 500))
	var n atomic.Int64
	var running sync.WaitGroup
	end := time.Now().Add(d)
	for range writers {
		running.Go(func() {
			for time.Now().Before(end) {
				i := l.next.Add(1)
				err := l.db.Write(context.Background(), "put", func(c *sqlite.Conn) error {
					return sqlitedb.Exec(c, `INSERT INTO r VALUES (?, ?, ?)`, i*7919%1000, strconv.FormatInt(i, 36), body)
				})
				if err != nil {
					t.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	running.Wait()
	return int(n.Load())
}

// TestNormalOperation checks that without other writers the WAL restarts repeatedly, and all pages are compared only
// once.
func TestNormalOperation(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	l := newLoad(t, root)
	l.r = New(Options{
		Server: "server", Key: testKey, Files: map[string]*sqlitedb.DB{"one.db": l.db}, Target: Folder(filepath.Join(root, "target")),
		Spool: filepath.Join(root, "spool"), Clock: clock.System, Log: slog.New(slog.DiscardHandler), Interval: 5 * time.Millisecond,
	})
	s := l.r.sources[0]
	s.frames = 100
	l.r.Start()
	begun := func() uint32 {
		wal, err := openWAL(l.path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		defer wal.Close()
		h, err := readHeader(wal)
		for isGap(err) { // a restart is writing the header
			h, err = readHeader(wal)
		}
		if err != nil {
			t.Fatal(err)
		}
		return h.salt[0]
	}
	l.window(t, 50*time.Millisecond)
	for first, start := begun(), time.Now(); begun()-first < 3 && time.Since(start) < time.Minute; {
		l.window(t, 200*time.Millisecond)
	}
	if err := l.r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.compared != 1 || s.restarted < 3 {
		t.Errorf("the pages were compared %d times, the WAL began %d times: expected 1 and several", s.compared, s.restarted)
	}
	info, err := os.Stat(l.path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the WAL began %d times and has %d pages", s.restarted, info.Size()/4096)
}

func BenchmarkWrites(b *testing.B) {
	const windows, window = 9, 2500 * time.Millisecond
	roots := [2]string{b.TempDir(), b.TempDir()}
	loads := [2]*load{newLoad(b, roots[0]), newLoad(b, roots[1])}
	loads[1].replicate(roots[1])
	defer loads[1].r.Close(context.Background())
	for b.Loop() {
		var counts [2][]int
		var ratios []float64
		for i := range windows {
			for j := range loads {
				which := (i + j) % 2
				counts[which] = append(counts[which], loads[which].window(b, window))
			}
			ratios = append(ratios, float64(counts[1][i])/float64(counts[0][i]))
		}
		b.ReportMetric(median(ratios), "ratio")
		b.ReportMetric(float64(median(counts[0]))/window.Seconds(), "plain/s")
		b.ReportMetric(float64(median(counts[1]))/window.Seconds(), "replicated/s")
		b.ReportMetric(loads[1].r.Status().Lag(time.Now()).Seconds(), "lag-s")
	}
}

func median[T cmp.Ordered](all []T) T {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}
