// Package sweep runs what has to be done again and again and in small steps:
// removing what has expired, cleaning up what was replaced.
//
// A step is bounded, so that no caller of the database waits long for it, and
// safe in several processes at once; the service that owns the job sees to both.
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

// Job is one thing to do again and again.
type Job struct {
	Name  string        // in logs and metrics
	Every time.Duration // from the end of one round to the start of the next; 0: only RunOnce runs it
	Limit int           // most rows of a step, at least 1

	// Run does one step at now: at most limit rows. It returns how many they
	// were, also with an error; limit of them means that there may be more.
	Run func(ctx context.Context, now time.Time, limit int) (n int, err error)
}

// Options are what the jobs of a process have in common. Only Clock is needed.
type Options struct {
	Clock clock.Clock
	Log   *slog.Logger

	// Observe is told of every round: the rows and the error.
	Observe func(job string, rows int, err error)
}

// Run runs the jobs, each on its own, until ctx ends and the step that is then
// under way has returned.
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

// maxBackoff is the longest pause after rounds that failed.
const maxBackoff = 10 * time.Minute

// repeat runs one job. The first round comes after a part of the pause, so that
// processes that start together do not sweep together.
func (o Options) repeat(ctx context.Context, j Job) {
	pause := rand.N(j.Every)
	failures := 0
	for clock.Rest(ctx, pause) {
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

// RunOnce runs steps of a job back to back until one finds less than its limit,
// and returns the rows of all of them.
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

// step runs one step. A panic is an error of it: what one row provokes must not
// end a server that has others to serve.
func (j Job) step(ctx context.Context, now time.Time) (n int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return j.Run(ctx, now, j.Limit)
}
