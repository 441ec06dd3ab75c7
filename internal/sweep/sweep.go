// Package sweep runs periodic jobs in small steps, such as deleting expired rows.
//
// Processes that share a database share the rounds of a job. Each step is bounded, so
// that no caller of the database waits long for it, and is safe in several processes at once, because
// a round may take longer than the interval. The service that owns the job ensures both.
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

// Job is a periodic job.
type Job struct {
	Name  string        // in logs and metrics
	Every time.Duration // from the end of one round to the start of the next; 0: only RunOnce runs it
	Limit int           // maximum number of rows of a step, at least 1

	// Run does one step of at most limit rows. It returns the number of rows, also with
	// an error; limit means that there may be more.
	Run func(ctx context.Context, now time.Time, limit int) (n int, err error)

	// By, if set, is what does the job in place of Run, such as a database. Every is 0.
	By string

	// Rounds, if set, are the rounds of all processes that share a database.
	Rounds Rounds

	// Left, if set, says what a round has left and why, or "", for people who run it by
	// hand.
	Left func(ctx context.Context, now time.Time) (string, error)
}

// Rounds make several processes run no more rounds of a job than one process would. A process
// that hangs or is killed in a round delays the next one by less than two intervals.
type Rounds interface {
	// BeginRound begins a round and returns true, unless a process has begun one within the interval.
	BeginRound(ctx context.Context, job string, every time.Duration) (bool, error)

	// AbortRound lets any process begin a round at once, because the latest one failed.
	AbortRound(ctx context.Context, job string) error
}

// Options configure the jobs of a process. Only Clock is required.
type Options struct {
	Clock clock.Clock
	Log   *slog.Logger

	// Observe, if set, is called after every round of this process with the number of rows and the
	// error.
	Observe func(job string, rows int, err error)

	// ObserveOther, if set, is called in place of a round if another process has begun one, which
	// has not failed so far.
	ObserveOther func(job string)
}

// Sweeper runs the jobs of a process: periodically, and when somebody asks for one.
type Sweeper struct {
	Options

	jobs []*job
}

// job is a Job of which one round at a time runs in this process.
type job struct {
	Job

	turn chan struct{} // has a value while a round runs
}

// New returns the sweeper of a process.
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

// Run runs the jobs concurrently until ctx ends and the current steps have returned.
func (s *Sweeper) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, j := range s.jobs {
		if j.Every > 0 {
			wg.Go(func() { s.repeat(ctx, j) })
		}
	}
	wg.Wait()
}

// justNow is how recently another process must have begun a round that RunNow does not repeat.
const justNow = 10 * time.Second

// RunNow runs a round of a job at once. It returns errcode.Conflict while a round runs in this process, or if another process has begun
// one just now. progress is called after each step with the number of rows so far.
func (s *Sweeper) RunNow(ctx context.Context, name string, progress func(rows int)) (rows int, left string, err error) {
	at := slices.IndexFunc(s.jobs, func(j *job) bool { return j.Name == name && j.By == "" })
	if at < 0 {
		return 0, "", errcode.New(errcode.NotFound, "there is no such sweep")
	}
	j := s.jobs[at]
	select {
	case j.turn <- struct{}{}:
	default:
		return 0, "", errcode.New(errcode.Conflict, "the sweep runs already: wait until it has ended")
	}
	defer func() { <-j.turn }()
	begun, rows, err := s.round(ctx, j, justNow, progress)
	switch {
	case ctx.Err() != nil:
		return rows, "", err
	case !begun && err == nil:
		s.ObserveOther(j.Name)
		return 0, "", errcode.New(errcode.Conflict, "another server on the same database has begun the sweep just now")
	}
	s.Observe(j.Name, rows, err)
	if err != nil || j.Left == nil {
		return rows, "", err
	}
	left, err = j.Left(ctx, s.Clock())
	return rows, left, err
}

// maxBackoff is the maximum pause after failed rounds.
const maxBackoff = 10 * time.Minute

// repeat runs one job. The first round starts after a random part of the pause, so
// that processes that start together do not sweep together.
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

// round runs a round, unless another process has begun one within a time.
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

// RunOnce runs steps of a job until one finds less than its limit, and returns the
// number of all rows.
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

// step runs one step. A panic becomes its error, so that one bad row does not stop the
// server.
func (j Job) step(ctx context.Context, now time.Time) (n int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return j.Run(ctx, now, j.Limit)
}
