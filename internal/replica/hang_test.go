package replica

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
)

// deaf is a target that never answers and ignores canceled contexts.
type deaf struct{ release chan struct{} }

func (d deaf) Put(context.Context, string, io.Reader) error { <-d.release; return errTarget }

func (d deaf) Get(context.Context, string) (io.ReadCloser, error) { <-d.release; return nil, errTarget }

func (d deaf) List(context.Context, string) ([]string, error) { <-d.release; return nil, errTarget }

func (d deaf) Walk(context.Context, string, func(string) error) error { <-d.release; return errTarget }

func (d deaf) Delete(context.Context, string) error { <-d.release; return errTarget }

// TestTargetThatHangs checks that writes continue, the WAL restarts repeatedly, and the spool stays within its limit.
func TestTargetThatHangs(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	l := newLoad(t, root)
	target := deaf{make(chan struct{})}
	l.r = New(Options{
		Server: "server", Key: testKey, Files: map[string]*sqlitedb.DB{"one.db": l.db}, Target: target, SpoolBytes: 1 << 20,
		Spool: filepath.Join(root, "spool"), Clock: clock.System, Log: slog.New(slog.DiscardHandler), Interval: 5 * time.Millisecond,
	})
	s := l.r.sources[0]
	s.frames = 100
	l.r.Start()
	for !s.isAway() {
		l.window(t, 100*time.Millisecond)
	}
	if n := l.window(t, 200*time.Millisecond); n == 0 {
		t.Error("no write succeeds")
	}
	if status := l.r.Status(); status.WaitingBytes != 0 || !status.Since.IsZero() {
		t.Errorf("the spool was dropped, but the status is %+v", status)
	}
	close(target.release)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := l.r.Close(ctx); err == nil {
		t.Error("Close does not report that the target fails")
	}
}
