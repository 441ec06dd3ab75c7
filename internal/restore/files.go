package restore

import (
	"context"
	"fmt"
	"io"

	"holdfast/internal/app/service"
)

// Files restores the files that restored databases refer to. lost counts missing and damaged files, each reported as
// a step.
func (f *Finishing) Files(ctx context.Context, restored []*service.Running, step func(string)) (lost int, err error) {
	for _, s := range restored {
		if s.Files == nil || s.Files.Restore == nil {
			continue
		}
		step("restoring the files for " + s.Name)
		open := func(ctx context.Context, name string, size int64) (io.ReadCloser, error) {
			return f.Open(ctx, s.Name, name, size)
		}
		copied, err := s.Files.Restore(ctx, f.Folder, open, func(int64, int64) {})
		if err != nil {
			return lost, fmt.Errorf("%s: %w", s.Name, err)
		}
		for _, what := range copied.Missing {
			step("not restored: " + s.Name + ": " + what)
		}
		for _, what := range copied.Lost {
			step("lost: " + s.Name + ": " + what)
		}
		lost += len(copied.Lost)
	}
	return lost, nil
}
