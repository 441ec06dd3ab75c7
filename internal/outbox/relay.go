package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/ident"
)

// Options of a Relay. Box, Sink and Clock are needed.
type Options struct {
	Box   Box
	Sink  Sink
	Clock clock.Clock // tells how late events are
	Log   *slog.Logger

	// Every is the pause after which the relay looks for events of other
	// processes; 0 means a second.
	Every time.Duration

	// Batch is the greatest number of events that are published at once; 0
	// means 500.
	Batch int

	// Lease bounds a batch, and so how long events wait when a process has died
	// with one; 0 means 30 s. It is the same in all processes.
	Lease time.Duration

	// Observe, when not nil, is told of every batch, how many events it had and
	// how late the oldest of them was, and by Run of every pass that failed.
	Observe func(published int, late time.Duration, err error)
}

// Relay publishes the events of one table. There may be one in each of many
// processes: a lease in the database lets one of them publish at a time.
type Relay struct {
	o      Options
	holder string
	nudge  chan struct{}
}

// NewRelay makes a relay, which does nothing before Run or Pass.
func NewRelay(o Options) *Relay {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observe == nil {
		o.Observe = func(int, time.Duration, error) {}
	}
	if o.Every <= 0 {
		o.Every = time.Second
	}
	if o.Batch <= 0 {
		o.Batch = 500
	}
	if o.Lease <= 0 {
		o.Lease = 30 * time.Second
	}
	return &Relay{o: o, holder: ident.New(), nudge: make(chan struct{}, 1)}
}

// Nudge tells the relay that there is an event now. It never waits.
func (r *Relay) Nudge() {
	select {
	case r.nudge <- struct{}{}:
	default: // it has been told
	}
}

const (
	// gather is the least pause between two passes: a room that writes all the
	// time causes 20 of them in a second, and not one for each write.
	gather = 50 * time.Millisecond

	// maxBackoff is the longest pause after passes that failed.
	maxBackoff = time.Minute
)

// Run publishes until ctx ends.
func (r *Relay) Run(ctx context.Context) {
	for failures := 0; ; {
		_, err := r.Pass(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.o.Observe(0, 0, err)
			failures++
			pause := min(r.o.Every<<min(failures, 10), maxBackoff)
			pause += rand.N(pause/4 + 1)
			r.o.Log.Warn("events were not published", "error", err, "again_in", pause)
			r.rest(ctx, pause, nil)
		default:
			failures = 0
			r.rest(ctx, gather, nil)
			r.rest(ctx, r.o.Every, r.nudge)
		}
	}
}

// rest waits, until it is woken or ctx ends.
func (r *Relay) rest(ctx context.Context, pause time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
}

// Pass publishes what there is, unless another process does so, and returns how
// many events those were, also with an error.
func (r *Relay) Pass(ctx context.Context) (published int, err error) {
	// Most passes find nothing, and write nothing for it.
	if waiting, err := r.o.Box.Next(ctx, 1); err != nil || len(waiting) == 0 {
		return 0, err
	}
	defer func() {
		last, cancel := lasting(ctx)
		defer cancel()
		err = errors.Join(err, r.o.Box.Release(last, r.holder))
	}()
	for {
		n, err := r.batch(ctx)
		published += n
		if err != nil || n < r.o.Batch {
			return published, err
		}
	}
}

// lasting is a context for what ends a batch: a process that is told to stop in
// the middle would else publish the batch again.
func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
}

// batch publishes some events, under a lease that lasts longer than it may take.
func (r *Relay) batch(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.Lease*3/4)
	defer cancel()
	if mine, err := r.o.Box.Claim(ctx, r.holder, r.o.Lease); err != nil || !mine {
		return 0, err
	}
	events, err := r.o.Box.Next(ctx, r.o.Batch)
	if err != nil || len(events) == 0 {
		return 0, err
	}
	if err := r.publish(ctx, events); err != nil {
		return 0, err
	}
	last, cancel := lasting(ctx)
	defer cancel()
	if err := r.o.Box.Done(last, events); err != nil {
		return 0, fmt.Errorf("%d events are published and will be again: %w", len(events), err)
	}
	oldest := events[0].At
	for _, e := range events {
		if e.At.Before(oldest) {
			oldest = e.At
		}
	}
	r.o.Observe(len(events), r.o.Clock().Sub(oldest), nil)
	return len(events), nil
}

// publish calls the sink. A panic is an error of it: the server has others to
// serve.
func (r *Relay) publish(ctx context.Context, events []Event) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return r.o.Sink.Publish(ctx, events)
}
