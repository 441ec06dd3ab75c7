// Package sweep runs periodic jobs in small steps, such as deleting expired rows.
//
// The job's service ensures that steps are short, so that other callers need not wait long, and safe to run in
// several processes at once, because a round may exceed the interval.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
)

// Job is a periodic deletion.
type Job struct {
	Name  string        // unique in the database; label of metrics
	Every time.Duration // pause between rounds; 0 means that only RunOnce runs the job
	Limit int           // rows per step, at least 1

	// Run does a step and returns its rows, even with an error; limit means that more may be left.
	Run func(ctx context.Context, now time.Time, limit int) (n int, err error)

	// By names the database or other system that does the job instead of Run. Every is then 0.
	By string

	// Rounds is shared by all processes on a database; may be nil.
	Rounds Rounds

	// Left, if set, explains for manual runs why a round left rows; "" if it left none.
	Left func(ctx context.Context, now time.Time) (string, error)
}

// Rounds makes processes share rounds. A process that hangs or dies in a round delays the next by less than two
// intervals.
type Rounds interface {
	// BeginRound returns false if a process began a round within the interval.
	BeginRound(ctx context.Context, job string, every time.Duration) (bool, error)

	// AbortRound allows a new round at once, because the latest failed.
	AbortRound(ctx context.Context, job string) error
}

// Options configure a Sweeper. Clock is required.
type Options struct {
	Clock clock.Clock
	Log   *slog.Logger

	// Observe, if set, is called after every round in this process, also concurrently for several jobs.
	Observe func(job string, rows int, err error)

	// ObserveOther, if set, is called instead if another process began the round and did not fail so far.
	ObserveOther func(job string)
}

// Sweeper runs a process's jobs, periodically and on request. It is safe for concurrent use.
type Sweeper struct {
	Options

	jobs []*job
}

type job struct {
	Job

	turn chan struct{} // full while a round runs
}

// New returns an idle Sweeper for these jobs.
func New(jobs []Job, o Options) *Sweeper {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observe == nil {
		o.Observe = func(string, int, error) {}
	}
	if o.ObserveOther == nil {
		o.ObserveOther = func(string) {}
	}
	s := &Sweeper{Options: o}
	for _, j := range jobs {
		s.jobs = append(s.jobs, &job{j, make(chan struct{}, 1)})
	}
	return s
}

// Run runs all jobs with an interval until ctx ends.
func (s *Sweeper) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, j := range s.jobs {
		if j.Every > 0 {
			wg.Go(func() { s.repeat(ctx, j) })
		}
	}
	wg.Wait()
}

// justNow keeps RunNow from repeating another process's round that began a moment ago.
const justNow = 10 * time.Second

// RunNow runs a round now. It returns errcode.Conflict if a round is running here or just began elsewhere. progress
// gets the total rows after each step but the last. left is Job.Left's explanation.
func (s *Sweeper) RunNow(ctx context.Context, name string, progress func(rows int)) (rows int, left string, err error) {
	at := slices.IndexFunc(s.jobs, func(j *job) bool { return j.Name == name && j.By == "" })
	if at < 0 {
		return 0, "", errcode.New(errcode.NotFound, "no such sweep")
	}
	j := s.jobs[at]
	select {
	case j.turn <- struct{}{}:
	default:
		return 0, "", errcode.New(errcode.Conflict, "the sweep is already running: wait for its end")
	}
	defer func() { <-j.turn }()
	begun, rows, err := s.round(ctx, j, justNow, progress)
	switch {
	case ctx.Err() != nil:
		return rows, "", err
	case !begun && err == nil:
		s.ObserveOther(j.Name)
		return 0, "", errcode.New(errcode.Conflict, "another server on the same database has just started the sweep")
	}
	s.Observe(j.Name, rows, err)
	if err != nil || j.Left == nil {
		return rows, "", err
	}
	left, err = j.Left(ctx, s.Clock())
	return rows, left, err
}

// maxBackoff limits the pause after failures.
const maxBackoff = 10 * time.Minute

// repeat starts after a random part of the pause, so that processes that start together do not sweep together.
func (s *Sweeper) repeat(ctx context.Context, j *job) {
	pause := rand.N(j.Every)
	failures := 0
	for clock.Sleep(ctx, pause) {
		select {
		case j.turn <- struct{}{}:
		case <-ctx.Done():
			return
		}
		begun, n, err := s.round(ctx, j, j.Every, func(int) {})
		<-j.turn
		if ctx.Err() != nil {
			return
		}
		if begun || err != nil {
			s.Observe(j.Name, n, err)
		} else {
			s.ObserveOther(j.Name)
		}
		pause = j.Every + rand.N(j.Every/4+1)
		if err == nil {
			failures = 0
			continue
		}
		failures++
		pause = min(pause<<min(failures, 6), max(maxBackoff, j.Every))
		s.Log.Warn("sweep failed", "sweep", j.Name, "error", err, "retry_in", pause)
	}
}

// round runs steps until nothing is left. begun is false if another process began a round within the interval.
func (s *Sweeper) round(ctx context.Context, j *job, within time.Duration, progress func(rows int)) (begun bool, rows int, err error) {
	if j.Rounds != nil {
		if begun, err = j.Rounds.BeginRound(ctx, j.Name, within); err != nil || !begun {
			return false, 0, err
		}
	}
	rows, err = runSteps(ctx, j.Job, s.Clock, progress)
	if err != nil && j.Rounds != nil && ctx.Err() == nil {
		err = errors.Join(err, j.Rounds.AbortRound(ctx, j.Name))
	}
	return true, rows, err
}

// RunOnce runs steps until a step finds less than its limit, and returns the total rows.
func RunOnce(ctx context.Context, j Job, now clock.Clock) (rows int, err error) {
	return runSteps(ctx, j, now, func(int) {})
}

func runSteps(ctx context.Context, j Job, now clock.Clock, progress func(rows int)) (rows int, err error) {
	for {
		n, err := j.step(ctx, now())
		rows += n
		if err != nil || n < j.Limit {
			return rows, err
		}
		if err := ctx.Err(); err != nil {
			return rows, err
		}
		progress(rows)
	}
}

// step turns panics into errors, because a bad row must not stop the server.
func (j Job) step(ctx context.Context, now time.Time) (n int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return j.Run(ctx, now, j.Limit)
}
