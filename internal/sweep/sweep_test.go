package sweep_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/sweep"
)

func TestRunOnceGoesOnWhileStepsAreFull(t *testing.T) {
	t.Parallel()
	left := 25
	job := sweep.Job{Name: "test", Limit: 10, Run: func(_ context.Context, _ time.Time, limit int) (int, error) {
		n := min(left, limit)
		left -= n
		return n, nil
	}}
	n, err := sweep.RunOnce(t.Context(), job, clock.System)
	if n != 25 || err != nil || left != 0 {
		t.Errorf("swept %d, %v; %d left", n, err, left)
	}
}

func TestRunOnceCountsWhatWasDoneBeforeAFailure(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	steps := 0
	job := sweep.Job{Name: "test", Limit: 10, Run: func(context.Context, time.Time, int) (int, error) {
		if steps++; steps == 3 {
			return 4, boom
		}
		return 10, nil
	}}
	if n, err := sweep.RunOnce(t.Context(), job, clock.System); n != 24 || !errors.Is(err, boom) {
		t.Errorf("swept %d, %v", n, err)
	}
}

func TestRunOnceEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	job := sweep.Job{Name: "test", Limit: 1, Run: func(context.Context, time.Time, int) (int, error) {
		cancel()
		return 1, nil
	}}
	if n, err := sweep.RunOnce(ctx, job, clock.System); n != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("swept %d, %v", n, err)
	}
}

func TestPanicIsAnError(t *testing.T) {
	t.Parallel()
	job := sweep.Job{Name: "test", Limit: 1, Run: func(context.Context, time.Time, int) (int, error) { panic("boom") }}
	if n, err := sweep.RunOnce(t.Context(), job, clock.System); n != 0 || err == nil || !strings.Contains(err.Error(), "sweep_test.go") {
		t.Errorf("swept %d, %v", n, err)
	}
}

// TestRunSkipsJobsWithoutInterval: Run returns at once if no job has an interval.
func TestRunSkipsJobsWithoutInterval(t *testing.T) {
	t.Parallel()
	job := sweep.Job{Name: "test", Limit: 1, Run: func(context.Context, time.Time, int) (int, error) {
		t.Error("it ran")
		return 0, nil
	}}
	sweep.Run(t.Context(), []sweep.Job{job}, sweep.Options{Clock: clock.System})
}

// TestRunRepeatsAndBacksOff uses the clock of synctest, so pauses take no time.
func TestRunRepeatsAndBacksOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var at []time.Time
		job := sweep.Job{Name: "test", Every: time.Minute, Limit: 10, Run: func(_ context.Context, now time.Time, _ int) (int, error) {
			at = append(at, now)
			switch len(at) {
			case 3, 4:
				return 0, errors.New("away")
			case 6:
				cancel()
			}
			return 0, nil
		}}
		rounds := 0
		sweep.Run(ctx, []sweep.Job{job}, sweep.Options{Clock: clock.System, Observe: func(string, int, error) { rounds++ }})
		if len(at) != 6 || rounds != 5 {
			t.Fatalf("%d steps, %d rounds observed", len(at), rounds)
		}
		for i, want := range []struct{ least, most time.Duration }{
			{time.Minute, 75 * time.Second},
			{time.Minute, 75 * time.Second},
			{2 * time.Minute, 150 * time.Second}, // after one failure
			{4 * time.Minute, 300 * time.Second}, // after two
			{time.Minute, 75 * time.Second},      // after a success
		} {
			if d := at[i+1].Sub(at[i]); d < want.least || d > want.most+time.Second {
				t.Errorf("pause %d was %v, want %v to %v", i, d, want.least, want.most)
			}
		}
	})
}
