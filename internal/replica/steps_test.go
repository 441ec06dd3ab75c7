package replica

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
)

// TestCrashAtEachStep: the server is killed at each step in turn. What was published before and after the
// next start can be restored.
func TestCrashAtEachStep(t *testing.T) {
	t.Parallel()
	var crashed []string
	every := 1
	if testing.Short() {
		every = 4
	}
	for at := 0; ; at += every {
		w := newWorld(t, memoryFolder(t), nil)
		step, name := 0, ""
		w.fault = func(point string) error {
			if step++; step-1 == at {
				name = point
				return errors.New("killed")
			}
			if name != "" {
				return errors.New("killed") // nothing happens afterwards
			}
			return nil
		}
		for i := range 4 {
			for _, file := range names {
				w.must(w.exec(file, insert, 30, 3000))
			}
			w.clock.Advance(time.Duration(i) * 30 * time.Minute)
			if w.capture() != nil || w.ship() != nil || w.r.maintain(context.Background()) != nil {
				break
			}
		}
		w.check()
		w.fault = nil
		w.kill()
		w.must(w.capture())
		w.must(w.ship())
		w.must(w.r.maintain(context.Background()))
		w.checked = map[string]bool{}
		w.check()
		w.close()
		if name == "" {
			break
		}
		crashed = append(crashed, name)
	}
	for _, want := range []string{"spool", "send", "sent", "publish", "published", "send snapshot", "sent snapshot", "merged", "delete"} {
		if !slices.Contains(crashed, want) && every == 1 {
			t.Errorf("no crash at the step %q", want)
		}
	}
	t.Logf("crashed at %d steps", len(crashed))
}

// TestBefore: a point is published only when what it needs is there.
func TestBefore(t *testing.T) {
	t.Parallel()
	var told []Point
	var fails error
	w := newWorld(t, t.TempDir(), func(o *Options) {
		o.Before = func(_ context.Context, p Point) error {
			told = append(told, p)
			return fails
		}
	})
	t.Cleanup(w.close)
	fails = errors.New("a body is missing")
	w.must(w.capture())
	if err := w.ship(); !errors.Is(err, fails) {
		t.Errorf("it ships, %v", err)
	}
	if points, err := listPoints(t.Context(), w.target); err != nil || len(points) > 0 || !w.r.Status().Since.IsZero() {
		t.Errorf("%d points, %v", len(points), err)
	}
	fails = nil
	w.must(w.ship())
	if points, err := listPoints(t.Context(), w.target); err != nil || len(points) != 1 || len(told) != 2 || len(told[1].Files) != 2 {
		t.Errorf("%d points, %v, told %+v", len(points), err, told)
	}
}

// distant is a target with a delay.
type distant struct {
	Target
	delay time.Duration
}

func (d distant) Put(ctx context.Context, name string, body io.Reader) error {
	clock.Sleep(ctx, d.delay)
	return d.Target.Put(ctx, name, body)
}

// BenchmarkLag measures for how long a write may be missing in the last restore point, with 100
// writes a second and a target 50 ms away.
func BenchmarkLag(b *testing.B) {
	root := b.TempDir()
	l := newLoad(b, root)
	r := New(Options{
		Server: "server", Files: map[string]*sqlitedb.DB{"one.db": l.db}, Target: distant{Folder(filepath.Join(root, "target")), 50 * time.Millisecond},
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
