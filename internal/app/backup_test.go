package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
)

// TestBackupReleases: files are held for no longer than a backup, and are released when a
// failed one has freed the space that it took on the disk.
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
		a := &App{now: clock.System, data: t.TempDir(), log: slog.New(slog.DiscardHandler), opened: []*opened{{Running: &service.Running{Name: "test", Opened: &service.Opened{Files: &service.Files{
			Hold: func(ctx context.Context) (context.Context, func(), error) {
				step("hold")
				return ctx, func() { step("release") }, nil
			},
			Copy: func(_ context.Context, dir string, _ func(done, total int64)) (service.Copied, error) {
				step("copy")
				return service.Copied{}, errors.Join(os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600), failure)
			},
		}}}}}}
		_, err := a.Backup(t.Context(), filepath.Join(parent, "backup"), BackupOptions{})
		if !errors.Is(err, failure) || !slices.Equal(steps, []string{"hold", "copy with a folder", "release"}) {
			t.Errorf("after %v: %q, %v", failure, steps, err)
		}
	}
}
