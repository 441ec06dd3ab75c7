package backup

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
)

// TestBackupReleases checks that files are held only during a backup, and that a failed backup frees its disk
// space before it releases them.
func TestBackupReleases(t *testing.T) {
	t.Parallel()
	full := errors.New("no space left on device")
	for _, failure := range []error{nil, full} {
		parent := t.TempDir()
		var steps []string
		step := func(name string) {
			left, err := filepath.Glob(filepath.Join(parent, "*.partial-*"))
			if err != nil {
				t.Fatal(err)
			}
			if len(left) > 0 {
				name += " with a folder"
			}
			steps = append(steps, name)
		}
		b := &Server{Clock: clock.System, Data: t.TempDir(), Log: slog.New(slog.DiscardHandler), Services: []*service.Running{{Name: "test", Opened: &service.Opened{Files: &service.Files{
			Hold: func(ctx context.Context) (context.Context, func(), error) {
				step("hold")
				return ctx, func() { step("release") }, nil
			},
			Copy: func(_ context.Context, dir string, _ func(done, total int64)) (service.Copied, error) {
				step("copy")
				return service.Copied{}, errors.Join(os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600), failure)
			},
		}}}}}
		_, err := b.Make(t.Context(), filepath.Join(parent, "backup"), Options{})
		if !errors.Is(err, failure) || !slices.Equal(steps, []string{"hold", "copy with a folder", "release"}) {
			t.Errorf("after %v: %q, %v", failure, steps, err)
		}
	}
}

func TestKnownBackups(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 20, 3, 0, 0, 0, time.UTC)
	s := &Server{Data: t.TempDir(), Clock: func() time.Time { return now }}
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	known := func() (names []string) {
		t.Helper()
		all, err := Known(s.Data)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range all {
			names = append(names, filepath.Base(b.Path)+" "+b.At.Format(time.TimeOnly))
		}
		return names
	}
	if got := known(); got != nil {
		t.Errorf("before: %v", got)
	}
	for _, name := range []string{"a", "b", "c", "b"} {
		if err := os.MkdirAll(path(name), 0o700); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Hour)
		if err := s.Record(path(name), 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := known(), []string{"b 07:00:00", "c 06:00:00", "a 04:00:00"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if err := os.Remove(path("c")); err != nil {
		t.Fatal(err)
	}
	if got, want := known(), []string{"b 07:00:00", "a 04:00:00"}; !slices.Equal(got, want) {
		t.Errorf("after one was deleted: %v, want %v", got, want)
	}
	if err := os.WriteFile(filepath.Join(s.Data, RecordFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Known(s.Data); err == nil {
		t.Error("a broken record has no error")
	}
}
