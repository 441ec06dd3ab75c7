package sweep_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
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

func TestRunSkipsJobsWithoutInterval(t *testing.T) {
	t.Parallel()
	job := sweep.Job{Name: "test", Limit: 1, Run: func(context.Context, time.Time, int) (int, error) {
		t.Error("it ran")
		return 0, nil
	}}
	sweep.New([]sweep.Job{job}, sweep.Options{Clock: clock.System}).Run(t.Context())
}

// TestRunNow checks that a manual round reports progress and is observed, is refused during or just after another
// round, and delays a periodic round.
func TestRunNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began, removes := make(chan struct{}), make(chan int)
		r := newRounds()
		job := sweep.Job{
			Name: "test", Every: time.Hour, Limit: 10, Rounds: r,
			Run: func(context.Context, time.Time, int) (int, error) {
				began <- struct{}{}
				return <-removes, nil
			},
			Left: func(context.Context, time.Time) (string, error) { return "a lock", nil },
		}
		var observed, reported []int
		s := sweep.New([]sweep.Job{job, {Name: "other", By: "the database"}}, sweep.Options{
			Clock: clock.System, Observe: func(_ string, rows int, _ error) { observed = append(observed, rows) },
		})
		ended, done := make(chan struct{}), make(chan struct{})
		go func() { defer close(ended); s.Run(ctx) }()
		go func() {
			defer close(done)
			rows, left, err := s.RunNow(ctx, "test", func(rows int) { reported = append(reported, rows) })
			if rows != 17 || left != "a lock" || err != nil {
				t.Errorf("%d, %q, %v", rows, left, err)
			}
		}()
		<-began
		if _, _, err := s.RunNow(ctx, "test", nil); !errcode.Is(err, errcode.Conflict) {
			t.Errorf("a second round: %v", err)
		}
		removes <- 10
		<-began
		time.Sleep(2 * time.Hour) // a periodic round is due
		synctest.Wait()
		select {
		case <-began:
			t.Error("a periodic round runs beside it")
		default:
		}
		removes <- 7
		<-done
		<-began
		removes <- 0
		synctest.Wait()
		if !slices.Equal(reported, []int{10}) || !slices.Equal(observed, []int{17, 0}) {
			t.Errorf("reported %d, observed %d", reported, observed)
		}
		for _, name := range []string{"nothing", "other"} {
			if _, _, err := s.RunNow(ctx, name, nil); !errcode.Is(err, errcode.NotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
		cancel()
		<-ended
		if _, _, err := s.RunNow(t.Context(), "test", nil); !errcode.Is(err, errcode.Conflict) {
			t.Errorf("another process has begun a round just now: %v", err)
		}
	})
}

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
		sweep.New([]sweep.Job{job}, sweep.Options{Clock: clock.System, Observe: func(string, int, error) { rounds++ }}).Run(ctx)
		if len(at) != 6 || rounds != 5 {
			t.Fatalf("%d steps, %d rounds observed", len(at), rounds)
		}
		for i, want := range []struct{ least, most time.Duration }{
			{time.Minute, 75 * time.Second},
			{time.Minute, 75 * time.Second},
			{2 * time.Minute, 150 * time.Second}, // after one failure
			{4 * time.Minute, 300 * time.Second}, // after two failures
			{time.Minute, 75 * time.Second},      // after a success
		} {
			if d := at[i+1].Sub(at[i]); d < want.least || d > want.most+time.Second {
				t.Errorf("pause %d was %v, want %v to %v", i, d, want.least, want.most)
			}
		}
	})
}

// rounds are a job's rounds in several processes.
type rounds struct {
	mu     sync.Mutex
	latest time.Time
	of     map[int][]time.Time // start times by process
	others map[int]int         // ObserveOther calls by process
	failed int
}

func newRounds() *rounds { return &rounds{of: map[int][]time.Time{}, others: map[int]int{}} }

func (r *rounds) BeginRound(_ context.Context, _ string, every time.Duration) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	begins := now.Sub(r.latest) > every
	if begins {
		r.latest = now
	}
	return begins, nil
}

func (r *rounds) AbortRound(context.Context, string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.latest = time.Time{}
	return nil
}

// run runs the job in a process until stop is called. done ends a round.
func (r *rounds) run(t *testing.T, process int, done func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	job := sweep.Job{
		Name: "test", Every: time.Minute, Limit: 10, Rounds: r,
		Run: func(ctx context.Context, now time.Time, _ int) (int, error) {
			r.mu.Lock()
			r.of[process] = append(r.of[process], now)
			r.mu.Unlock()
			return 0, done(ctx)
		},
	}
	o := sweep.Options{
		Clock: clock.System,
		Observe: func(_ string, _ int, err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if err != nil {
				r.failed++
			}
		},
		ObserveOther: func(string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.others[process]++
		},
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		sweep.New([]sweep.Job{job}, o).Run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

func succeed(context.Context) error { return nil }

// TestProcessesShareRounds checks that several processes run no more rounds than one.
func TestProcessesShareRounds(t *testing.T) {
	t.Parallel()
	for processes := range 5 {
		synctest.Test(t, func(t *testing.T) {
			r := newRounds()
			for process := range processes + 1 {
				defer r.run(t, process, succeed)()
			}
			time.Sleep(10 * time.Hour)
			synctest.Wait()
			begun, asked := 0, 0
			for process := range processes + 1 {
				begun += len(r.of[process])
				asked += len(r.of[process]) + r.others[process]
			}
			// Pauses are up to a quarter longer than a minute.
			if begun < 600*4/5 || begun > 600 {
				t.Errorf("%d rounds of %d processes in 600 minutes", begun, processes+1)
			}
			if n := processes + 1; asked < n*600*4/5 || asked > n*600 || r.failed != 0 {
				t.Errorf("%d processes have observed %d rounds, of which %d failed", n, asked, r.failed)
			}
		})
	}
}

// TestBrokenProcess checks that a process that hangs or always fails delays another process's rounds at most once.
func TestBrokenProcess(t *testing.T) {
	t.Parallel()
	for name, done := range map[string]func(ctx context.Context) error{
		"Hangs": func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		},
		"Fails": func(context.Context) error { return errors.New("no storage node") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRounds()
				defer r.run(t, 0, done)()
				time.Sleep(time.Minute)
				synctest.Wait()
				last, most := r.of[0][0], 135*time.Second // an interval and a pause
				defer r.run(t, 1, succeed)()
				time.Sleep(10 * time.Hour)
				synctest.Wait()
				for i, at := range r.of[1] {
					if d := at.Sub(last); d > most {
						t.Errorf("round %d began after %s", i, d)
					}
					last, most = at, 75*time.Second
				}
				if time.Since(last) > most || r.others[1] > 1 {
					t.Errorf("%d rounds, the last one %s ago, %d were left to the broken process", len(r.of[1]), time.Since(last), r.others[1])
				}
			})
		})
	}
}
