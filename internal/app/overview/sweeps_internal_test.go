package overview

import (
	"context"
	"errors"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
)

func TestSweepOperations(t *testing.T) {
	t.Parallel()
	now := clock.NewManual(time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC))
	s := &Sweeps{Clock: now.Now}
	if _, err := runSweep(s)(t.Context(), sweepInput{"a"}, nil); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("before the start: %v", err)
	}
	s.RunNow = func(_ context.Context, job string, progress func(int)) (int, string, error) {
		progress(500)
		return 700, "1 body: its node is down", nil
	}
	for job, every := range map[string]time.Duration{"a: late": time.Hour, "b: failed": time.Hour, "c: in time": 10 * time.Hour, "d: by hand": 0} {
		s.Expect(job, every, now.Now())
	}
	now.Advance(4 * time.Hour)
	s.Note("b: failed", 3, errors.New("no table"), now.Now())
	rows, err := listSweeps(s)(t.Context(), operate.None{})
	if err != nil || len(rows) != 4 {
		t.Fatalf("%+v, %v", rows, err)
	}
	for i, want := range []struct{ state, every string }{{"late", "1h"}, {"failed: no table", "1h"}, {"not due yet", "10h"}, {"not due yet", ""}} {
		if rows[i].State.text != want.state || rows[i].Every != want.every {
			t.Errorf("%+v, want %+v", rows[i], want)
		}
	}
	var reported operate.Update
	done, err := runSweep(s)(t.Context(), sweepInput{"a"}, func(u operate.Update) { reported = u })
	if err != nil || done.Notice() != "removed 700 rows" || !done.IsPartial() || reported.Done != 500 {
		t.Errorf("%+v, %v, reported %+v", done, err, reported)
	}
}
