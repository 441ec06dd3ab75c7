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
	"sync"
	"time"

	"holdfast/internal/clock"
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

// Run runs the jobs concurrently until ctx ends and the current steps have returned.
func Run(ctx context.Context, jobs []Job, o Options) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observe == nil {
		o.Observe = func(string, int, error) {}
	}
	if o.ObserveOther == nil {
		o.ObserveOther = func(string) {}
	}
	var wg sync.WaitGroup
	for _, j := range jobs {
		if j.Every > 0 {
			wg.Go(func() { o.repeat(ctx, j) })
		}
	}
	wg.Wait()
}

// maxBackoff is the maximum pause after failed rounds.
const maxBackoff = 10 * time.Minute

// repeat runs one job. The first round starts after a random part of the pause, so
// that processes that start together do not sweep together.
func (o Options) repeat(ctx context.Context, j Job) {
	pause := rand.N(j.Every)
	failures := 0
	for clock.Sleep(ctx, pause) {
		begun, n, err := o.round(ctx, j)
		if ctx.Err() != nil {
			return
		}
		if begun || err != nil {
			o.Observe(j.Name, n, err)
		} else {
			o.ObserveOther(j.Name)
		}
		pause = j.Every + rand.N(j.Every/4+1)
		if err == nil {
			failures = 0
			continue
		}
		failures++
		pause = min(pause<<min(failures, 6), max(maxBackoff, j.Every))
		o.Log.Warn("sweep failed", "sweep", j.Name, "error", err, "retry_in", pause)
	}
}

// round runs a round, unless another process has begun one.
func (o Options) round(ctx context.Context, j Job) (begun bool, rows int, err error) {
	if j.Rounds != nil {
		if begun, err = j.Rounds.BeginRound(ctx, j.Name, j.Every); err != nil || !begun {
			return false, 0, err
		}
	}
	rows, err = RunOnce(ctx, j, o.Clock)
	if err != nil && j.Rounds != nil && ctx.Err() == nil {
		err = errors.Join(err, j.Rounds.AbortRound(ctx, j.Name))
	}
	return true, rows, err
}

// RunOnce runs steps of a job until one finds less than its limit, and returns the
// number of all rows.
func RunOnce(ctx context.Context, j Job, now clock.Clock) (rows int, err error) {
	for {
		n, err := j.step(ctx, now())
		rows += n
		if err != nil || n < j.Limit {
			return rows, err
		}
		if err := ctx.Err(); err != nil {
			return rows, err
		}
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
