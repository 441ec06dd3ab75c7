// Package sweep runs periodic jobs in small steps, such as deleting expired rows.
//
// Each step is bounded, so that no caller of the database waits long for it, and is
// safe in several processes at once. The service that owns the job ensures both.
package sweep

import (
	"context"
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

	// Left, if set, says what a round has left and why, or "", for people who run it by
	// hand.
	Left func(ctx context.Context, now time.Time) (string, error)
}

// Options configure the jobs of a process. Only Clock is required.
type Options struct {
	Clock clock.Clock
	Log   *slog.Logger

	// Observe, if set, is called after every round with the number of rows and the error.
	Observe func(job string, rows int, err error)
}

// Run runs the jobs concurrently until ctx ends and the current steps have returned.
func Run(ctx context.Context, jobs []Job, o Options) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observe == nil {
		o.Observe = func(string, int, error) {}
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
		n, err := RunOnce(ctx, j, o.Clock)
		if ctx.Err() != nil {
			return
		}
		o.Observe(j.Name, n, err)
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
