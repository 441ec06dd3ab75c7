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

type RunState string

const (
	Running    RunState = "running"
	Waiting    RunState = "waiting"
	Done       RunState = "done"
	Incomplete RunState = "incomplete"
	Stopped    RunState = "stopped"
	Failed     RunState = "failed"
)

// Partial is a job's result that may leave work to do. Its command then exits with status 1.
type Partial interface{ IsPartial() bool }

// Run is a background job execution in this process.
type Run struct {
	ID        string
	Operation *Operation
	Inputs    map[string]string
	State     RunState
	Latest    Update
	Began     time.Time
	Ended     time.Time
	Found     []Row
	Result    *Result
	Err       error

	stop context.CancelFunc
}

func (r *Run) HasEnded() bool { return !r.Ended.IsZero() }

const (
	// MaxFound limits the kept rows per run.
	MaxFound = 100
	maxRuns  = 50
)

type Runs struct {
	mu    sync.Mutex
	life  context.Context //nolint:containedctx // of the server, because a job outlives the request that starts it; nil: it does not run
	end   context.CancelFunc
	clock func() time.Time
	log   *slog.Logger
	work  sync.WaitGroup
	all   []*Run
}

// InBackground connects background jobs to their runs, and adds operations that list, show and stop runs.
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

// RunsOf returns the operations' background runs, or nil.
func RunsOf(all []Operation) *Runs {
	for i := range all {
		if all[i].runs != nil {
			return all[i].runs
		}
	}
	return nil
}

// Begin lets jobs run until End, or until ctx ends.
func (r *Runs) Begin(ctx context.Context, clock func() time.Time, log *slog.Logger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock, r.log = clock, log
	r.life, r.end = context.WithCancel(ctx)
}

func (r *Runs) End() {
	r.mu.Lock()
	if r.end != nil {
		r.end()
	}
	r.life = nil
	r.mu.Unlock()
	r.work.Wait()
}

func (o *Operation) Start(ctx context.Context, values map[string]string) (Run, error) {
	run, err := o.start(values)
	o.record(ctx, values, nil, err)
	return run, err
}

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
	one := &Run{ID: strings.ToLower(rand.Text()), Operation: o, Inputs: values, State: Running, Began: r.clock(), stop: stop}
	r.all = append(r.all, one)
	if old := slices.IndexFunc(r.all, (*Run).HasEnded); len(r.all) > maxRuns && old >= 0 {
		r.all = slices.Delete(r.all, old, old+1)
	}
	r.work.Go(func() { r.run(ctx, one) })
	return one.copy(), nil
}

func (r *Runs) run(ctx context.Context, one *Run) {
	defer one.stop()
	o := one.Operation
	result, err := one.do(ctx, func(u Update) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if u.Found != nil {
			if len(one.Found) < MaxFound {
				one.Found = append(one.Found, o.Found.Row(u.Found))
			}
			return
		}
		one.Latest, one.State = u, Running
		if u.Waits != "" {
			one.State = Waiting
		}
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	one.Ended, one.Result, one.Err, one.State = r.clock(), result, err, Done
	switch {
	case err != nil && ctx.Err() != nil:
		one.State = Stopped
	case err != nil:
		one.State = Failed
		r.log.Warn("a background job failed", "operation", o.Path, "error", err)
	case result.IsPartial():
		one.State = Incomplete
	}
}

func (r *Run) do(ctx context.Context, progress Progress) (result *Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errcode.Wrap(errcode.Internal, "internal error: see the server log", fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	return r.Operation.unrecorded(ctx, r.Inputs, call{progress: progress})
}

// The caller holds the lock.
func (r *Run) copy() Run {
	c := *r
	c.Found = slices.Clone(r.Found)
	return c
}

// The caller holds the lock.
func (r *Runs) latest(o *Operation) *Run {
	for _, one := range slices.Backward(r.all) {
		if one.Operation.Path == o.Path {
			return one
		}
	}
	return nil
}

func (o *Operation) Latest() (run Run, ok bool) {
	if o.runs == nil {
		return run, false
	}
	o.runs.mu.Lock()
	defer o.runs.mu.Unlock()
	if one := o.runs.latest(o); one != nil {
		return one.copy(), true
	}
	return run, false
}

var errNoRun = errcode.New(errcode.NotFound, "no such run: the server was restarted since, or the run is too old")

func (r *Runs) find(id string) (Run, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.all {
		if one.ID == id {
			return one.copy(), nil
		}
	}
	return Run{}, errNoRun
}

func (r *Runs) list() (all []Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range slices.Backward(r.all) {
		all = append(all, one.copy())
	}
	return all
}

func (r *Run) Reason() string {
	if r.Err == nil {
		return ""
	}
	if text := errcode.Message(r.Err); text != "" {
		return text
	}
	if errors.Is(r.Err, context.Canceled) {
		return "it was stopped"
	}
	return r.Err.Error()
}
