package operate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/internal/errcode"
)

// RunState is a background job's state or outcome.
type RunState string

const (
	Running    RunState = "running"    // works
	Waiting    RunState = "waiting"    // reported with Progress.Wait that it waits, e.g. for a lock
	Done       RunState = "done"       // ended without an error and without remaining work
	Incomplete RunState = "incomplete" // ended without an error, but work remains; see Partial
	Stopped    RunState = "stopped"    // ended with an error after an operator or the server's end stopped it
	Failed     RunState = "failed"     // ended with an error by itself
)

// Partial is a job's result that may leave work to do. Its command then exits with status 1.
type Partial interface{ IsPartial() bool }

// Run is a background job's execution in this process. Functions return copies, which do not change when the job
// goes on. Inputs, Result and the rows are shared: callers must not change them.
type Run struct {
	ID        string            // random, unique across restarts
	Operation *Operation        // the job
	Inputs    map[string]string // values by input name, as given
	State     RunState
	Latest    Update    // the last progress
	Began     time.Time // by the server's clock
	Ended     time.Time // zero while the job runs
	Found     []Row     // at most MaxFound rows
	Result    *Result   // nil until the end, and usually nil if Err is set
	Err       error     // see Reason for its text

	stop context.CancelFunc // cancels the job's context
}

// HasEnded reports whether the job is over, in any state.
func (r *Run) HasEnded() bool { return !r.Ended.IsZero() }

const (
	// MaxFound limits the kept rows per run.
	MaxFound = 100
	// maxRuns is how many runs are kept; the oldest ended run goes first. A run is small, except for its rows.
	maxRuns = 50
)

// Runs holds a process's background jobs, in memory: docs/decisions/0048-operations.md says why. Jobs start only
// between Begin and End.
type Runs struct {
	mu    sync.Mutex
	life  context.Context //nolint:containedctx // of the server, because a job outlives the request that starts it; nil: it does not run
	end   context.CancelFunc
	clock func() time.Time
	log   *slog.Logger
	work  sync.WaitGroup
	all   []*Run
}

// InBackground returns a service's operations, connected with a common list of runs, and after them operations that
// list, show and stop runs under the noun runs. It does not change all. Call it once per service, before Recorded.
func InBackground(all []Operation) []Operation {
	runs := &Runs{}
	all = slices.Clone(all)
	for i := range all {
		if all[i].Background {
			all[i].runs = runs
		}
	}
	return append(all, runs.operations()...)
}

// RunsOf returns the list that InBackground connected with the operations, or nil if none of them has Background. Runs'
// methods do not accept nil.
func RunsOf(all []Operation) *Runs {
	for i := range all {
		if all[i].runs != nil {
			return all[i].runs
		}
	}
	return nil
}

// Begin lets jobs run until End, or until ctx ends. The server calls it once, when all databases are open; a second call,
// or a call after End, is a mistake. log gets a warning for each failed job.
func (r *Runs) Begin(ctx context.Context, clock func() time.Time, log *slog.Logger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock, r.log = clock, log
	r.life, r.end = context.WithCancel(ctx)
}

// End stops all jobs and waits until they returned. New jobs are refused from then on. It does nothing before Begin and
// after End.
func (r *Runs) End() {
	r.mu.Lock()
	if r.end != nil {
		r.end()
	}
	r.life = nil
	r.mu.Unlock()
	r.work.Wait()
}

// Start begins a background job and returns its first state; it does not wait. It returns an *InputError for invalid
// values, the error from About.Refuses, Conflict if the same job is already running in this process (with any inputs),
// or Unavailable before Begin and after End. The operation must come from InBackground, and the caller must not change
// values afterwards.
func (o *Operation) Start(ctx context.Context, values map[string]string) (Run, error) {
	run, err := o.start(values)
	o.record(ctx, values, nil, err)
	return run, err
}

// start is Start without the record.
func (o *Operation) start(values map[string]string) (Run, error) {
	if err := o.check(values); err != nil {
		return Run{}, err
	}
	if o.Refuses != nil {
		if err := o.Refuses(); err != nil {
			return Run{}, err
		}
	}
	r := o.runs
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.life == nil || r.life.Err() != nil {
		return Run{}, errcode.New(errcode.Unavailable, "the server is starting or shutting down")
	}
	if latest := r.latest(o); latest != nil && !latest.HasEnded() {
		return Run{}, errcode.New(errcode.Conflict, "the same job is already running: stop it, or wait for its end")
	}
	ctx, stop := context.WithCancel(r.life)
	job := &Run{ID: strings.ToLower(rand.Text()), Operation: o, Inputs: values, State: Running, Began: r.clock(), stop: stop}
	r.all = append(r.all, job)
	if old := slices.IndexFunc(r.all, (*Run).HasEnded); len(r.all) > maxRuns && old >= 0 {
		r.all = slices.Delete(r.all, old, old+1)
	}
	r.work.Go(func() { r.run(ctx, job) })
	return job.copy(), nil
}

// run executes a job to its end and keeps its state up to date.
func (r *Runs) run(ctx context.Context, job *Run) {
	defer job.stop()
	o := job.Operation
	result, err := job.do(ctx, func(u Update) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if u.Found != nil {
			if len(job.Found) < MaxFound {
				job.Found = append(job.Found, o.Found.Row(u.Found))
			}
			return
		}
		job.Latest, job.State = u, Running
		if u.Waits != "" {
			job.State = Waiting
		}
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	job.Ended, job.Result, job.Err, job.State = r.clock(), result, err, Done
	switch {
	case err != nil && ctx.Err() != nil:
		job.State = Stopped
	case err != nil:
		job.State = Failed
		r.log.Warn("a background job failed", "operation", o.Path, "error", err)
	case result.IsPartial():
		job.State = Incomplete
	}
}

// do runs the operation without recording it: Start did that. A panic becomes an error, because no request is there
// that would answer 500.
func (r *Run) do(ctx context.Context, progress Progress) (result *Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errcode.Wrap(errcode.Internal, "internal error: see the server log", fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	return r.Operation.unrecorded(ctx, r.Inputs, call{progress: progress})
}

// copy returns the state that others may read. The caller holds the lock.
func (r *Run) copy() Run {
	c := *r
	c.Found = slices.Clone(r.Found)
	return c
}

// latest returns the operation's last run, or nil. It compares paths, because Recorded and others copy operations.
// The caller holds the lock.
func (r *Runs) latest(o *Operation) *Run {
	for _, job := range slices.Backward(r.all) {
		if job.Operation.Path == o.Path {
			return job
		}
	}
	return nil
}

// Latest returns the operation's last run in this process. ok is false if it never ran, or if the operation does not
// run in the background.
func (o *Operation) Latest() (run Run, ok bool) {
	if o.runs == nil {
		return run, false
	}
	o.runs.mu.Lock()
	defer o.runs.mu.Unlock()
	if job := o.runs.latest(o); job != nil {
		return job.copy(), true
	}
	return run, false
}

var errNoRun = errcode.New(errcode.NotFound, "no such run: the server was restarted since, or the run is too old")

// find returns the run with this ID, or errNoRun.
func (r *Runs) find(id string) (Run, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, job := range r.all {
		if job.ID == id {
			return job.copy(), nil
		}
	}
	return Run{}, errNoRun
}

// list returns all runs, newest first.
func (r *Runs) list() (all []Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, job := range slices.Backward(r.all) {
		all = append(all, job.copy())
	}
	return all
}

// Reason returns the job's error as a text for operators: its errcode message, if any. "" means no error.
func (r *Run) Reason() string {
	if r.Err == nil {
		return ""
	}
	if text := errcode.ForOperator(r.Err); text != "" {
		return text
	}
	if errors.Is(r.Err, context.Canceled) {
		return "it was stopped"
	}
	return r.Err.Error()
}
