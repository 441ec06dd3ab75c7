package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/ident"
)

// Options configure a Relay. Poll, Lease and Attempts must be equal in all processes.
type Options struct {
	Box   Box
	Sink  Sink // receives the events
	Clock clock.Clock
	Log   *slog.Logger

	// Waker is optional: without it, the relay relies on polling.
	Waker *Waker

	// Poll is how often a process looks for events left by crashed processes. The default is 30 s. Distributed boxes
	// are polled a quarter as often.
	Poll time.Duration

	// Look is how often the polling process also looks, between polls, for events of crashed processes and of
	// commands, which have no relay. It only reads; 0 means never.
	Look time.Duration

	// Batch defaults to 500.
	Batch int

	// Share is the maximum number of leased partitions, so that relays work in parallel. The default is a quarter.
	Share int

	// Lease limits a batch's duration, and so the delay after a crash. The default is 20 s.
	Lease time.Duration

	// Attempts is how often an event is refused before it becomes a dead letter. The default is 10, which take about
	// two minutes.
	Attempts int

	// Observe, if set, is called for every batch with its event count and the oldest event's delay, and by Run for
	// every failed pass.
	Observe func(published int, late time.Duration, err error)

	// ObserveDead, if set, is called by the polling process.
	ObserveDead func(n int)

	// ObserveBacklog, if set, is called by the polling process if the box is Counted.
	ObserveBacklog func(n int, oldest time.Time)

	// Hint is logged with a new dead letter: what the operator can do.
	Hint string
}

// Relay publishes a table's events. Database leases let only one process publish a partition.
type Relay struct {
	o      Options
	holder string // random ID for the leases

	// Only Run and Pass use these, never concurrently.
	held    [Partitions]retry
	refused [Partitions]time.Time // zero if no event was refused
	polls   bool                  // holds the polling lease
	works   bool                  // the sink accepted an event since it was last unavailable
}

// retry says when to try a lease again.
type retry struct {
	at    time.Time
	tries int
}

// NewRelay returns an idle relay; call Run or Pass.
func NewRelay(o Options) *Relay {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observe == nil {
		o.Observe = func(int, time.Duration, error) {}
	}
	if o.ObserveDead == nil {
		o.ObserveDead = func(int) {}
	}
	if o.ObserveBacklog == nil {
		o.ObserveBacklog = func(int, time.Time) {}
	}
	if o.Waker == nil {
		o.Waker = NewWaker()
	}
	if o.Poll <= 0 {
		o.Poll = 30 * time.Second
	}
	if o.Batch <= 0 {
		o.Batch = 500
	}
	if o.Share <= 0 {
		o.Share = Partitions / 4
	}
	if o.Lease <= 0 {
		o.Lease = 20 * time.Second
	}
	if o.Attempts <= 0 {
		o.Attempts = 10
	}
	return &Relay{o: o, holder: ident.New()}
}

const (
	// gather limits a busy service to ten passes a second, instead of one per write.
	gather = 100 * time.Millisecond

	minBackoff = time.Second
	maxBackoff = time.Minute

	// minRetry and maxRetry limit the backoff for a partition leased by another process.
	minRetry = 100 * time.Millisecond
	maxRetry = 2 * time.Second
)

// pause returns a backoff with up to a quarter of jitter.
func pause(shortest, longest time.Duration, failures int) time.Duration {
	p := min(shortest<<min(failures, 20), longest)
	return p + rand.N(p/4+1)
}

// Run publishes events until ctx ends, and then gives up the polling lease. Errors are logged and retried.
func (r *Relay) Run(ctx context.Context) {
	defer func() {
		if err := r.release(ctx, PartsOf(watch)); err != nil {
			r.o.Log.Warn("could not release the outbox lease, other processes will wait until it expires", "error", err)
		}
	}()
	var poll, look, resume time.Time
	for first, failures := true, 0; ; {
		now := time.Now()
		err := r.poll(ctx, first, &poll)
		if err == nil {
			err = r.look(ctx, &look)
		}
		if err == nil {
			_, err = r.round(ctx, r.due(now))
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.o.Observe(0, 0, err)
			failures++
			p := pause(minBackoff, maxBackoff, failures)
			resume = time.Now().Add(p)
			r.o.Log.Warn("could not publish events", "error", err, "retry_in", p)
		default:
			first, failures = false, 0
		}
		if !clock.Sleep(ctx, gather) {
			return
		}
		if wait := time.Until(resume); wait > 0 {
			if !clock.Sleep(ctx, wait) {
				return
			}
		} else if !r.await(ctx, earliest(poll, look)) {
			return
		}
	}
}

// await waits until next, an earlier retry, or new events. It returns false when ctx ends.
func (r *Relay) await(ctx context.Context, next time.Time) bool {
	for p := range Partitions {
		if t := r.refused[p]; !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	for p := range r.o.Waker.waiting().All() {
		if t := r.held[p].at; t.Before(next) {
			next = t
		}
	}
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.o.Waker.signal:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

func earliest(t, other time.Time) time.Time {
	if !other.IsZero() && other.Before(t) {
		return other
	}
	return t
}

// due returns the partitions that may contain events and are not known to be leased elsewhere.
func (r *Relay) due(now time.Time) (due Parts) {
	r.wakeRefused(allParts, now)
	for p := range r.o.Waker.waiting().All() {
		if !now.Before(r.held[p].at) {
			due |= PartsOf(p)
		}
	}
	return due
}

// wakeRefused makes partitions due whose refused events may be tried again.
func (r *Relay) wakeRefused(parts Parts, now time.Time) {
	for p := range parts.All() {
		if t := r.refused[p]; !t.IsZero() && !now.Before(t) {
			r.refused[p] = time.Time{}
			r.o.Waker.wakeAll(PartsOf(p))
		}
	}
}

// poll always looks at startup, without waiting for the process's previous lease to expire.
func (r *Relay) poll(ctx context.Context, first bool, next *time.Time) error {
	if now := time.Now(); now.Before(*next) {
		return nil
	}
	// The lease outlasts the pause, so that it stays with its holder.
	every, err := r.pollEvery(ctx)
	if err != nil {
		return err
	}
	held, err := r.o.Box.Claim(ctx, r.holder, every*3/2, PartsOf(watch))
	if err != nil {
		return err
	}
	r.polls = held != 0
	if first || r.polls {
		parts, err := r.find(ctx)
		if err != nil {
			return err
		}
		r.o.Waker.wakeAll(parts)
	}
	dead, backlog, oldest := 0, 0, time.Time{}
	if r.polls {
		if dead, err = r.o.Box.CountDead(ctx); err != nil {
			return err
		}
		if counted, ok := r.o.Box.(Counted); ok {
			if backlog, oldest, err = counted.Backlog(ctx); err != nil {
				return err
			}
		}
	}
	r.o.ObserveDead(dead)
	r.o.ObserveBacklog(backlog, oldest)
	*next = time.Now().Add(every + rand.N(every/10+1))
	return nil
}

// pollEvery returns the poll interval for this box.
func (r *Relay) pollEvery(ctx context.Context) (time.Duration, error) {
	box, ok := r.o.Box.(Distributed)
	if !ok {
		return r.o.Poll, nil
	}
	distributed, err := box.Distributed(ctx)
	if distributed {
		return 4 * r.o.Poll, err
	}
	return r.o.Poll, err
}

// look checks for events between polls. It zeroes next if this relay does not poll.
func (r *Relay) look(ctx context.Context, next *time.Time) error {
	if !r.polls || r.o.Look <= 0 {
		*next = time.Time{}
		return nil
	}
	if time.Now().Before(*next) {
		return nil
	}
	parts, err := r.find(ctx)
	r.o.Waker.wakeAll(parts)
	*next = time.Now().Add(r.o.Look)
	return err
}

// find returns the partitions with events.
func (r *Relay) find(ctx context.Context) (Parts, error) {
	events, parts, err := r.o.Box.Next(ctx, Query{Parts: allParts, Limit: Partitions, Now: time.Now()})
	for _, e := range events {
		parts |= PartsOf(Partition(e.Owner, e.Stream))
	}
	return parts, err
}

// Pass publishes all events except in partitions leased elsewhere, and returns their number, even with an error.
func (r *Relay) Pass(ctx context.Context) (published int, err error) {
	parts, err := r.find(ctx)
	if err != nil {
		return 0, err
	}
	return r.round(ctx, parts)
}

// round tries other partitions after a failure, and if those succeed, retries the failed partitions.
func (r *Relay) round(ctx context.Context, todo Parts) (published int, err error) {
	var (
		failed  Parts
		sinkErr *sinkError
	)
	for todo != 0 {
		parts := r.choose(todo)
		n, more, err := r.turn(ctx, parts)
		published += n
		if errors.As(err, &sinkErr) && failed == 0 {
			failed, todo = parts, todo&^parts
			continue
		}
		if err != nil {
			return published, err
		}
		todo = todo&^parts | more
		if more != 0 {
			// One partition's long backlog must not delay the others.
			todo |= r.due(time.Now())
		}
		if n > 0 && failed != 0 {
			todo, failed = todo|failed, 0
		}
	}
	if failed != 0 {
		return published, sinkErr
	}
	return published, nil
}

// choose begins at random, so that relays choose differently.
func (r *Relay) choose(todo Parts) (chosen Parts) {
	first := rand.IntN(Partitions)
	for i := range Partitions {
		if p := (first + i) % Partitions; todo.Has(p) && chosen.Len() < r.o.Share {
			chosen |= PartsOf(p)
		}
	}
	return chosen
}

// turn claims partitions, with leases that outlast the batch, and publishes a batch.
func (r *Relay) turn(ctx context.Context, parts Parts) (published int, more Parts, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.Lease*3/4)
	defer cancel()
	held, err := r.o.Box.Claim(ctx, r.holder, r.o.Lease, parts)
	if err != nil {
		return 0, 0, err
	}
	for p := range parts.All() {
		if h := &r.held[p]; held.Has(p) {
			*h = retry{}
		} else {
			h.at = time.Now().Add(pause(minRetry, maxRetry, h.tries))
			h.tries++
		}
	}
	if held == 0 {
		return 0, 0, nil
	}
	// Take the time before reading events, because later events are reported again.
	now := time.Now()
	r.wakeRefused(held, now) // first, because another refusal sets another pause
	was := r.o.Waker.take(held)
	published, more, released, err := r.batch(ctx, held, was.owners(held), now)
	if err != nil {
		r.o.Waker.putBack(was, held)
	} else {
		r.o.Waker.putBack(was, more)
	}
	if !released {
		err = errors.Join(err, r.release(ctx, held))
	}
	return published, more, err
}

// lasting returns a context that outlives ctx, because an incomplete batch would be published again.
func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
}

func (r *Relay) release(ctx context.Context, parts Parts) error {
	ctx, cancel := lasting(ctx)
	defer cancel()
	return r.o.Box.Release(ctx, r.holder, parts)
}

// batch publishes a batch and deletes it. released reports whether the leases were given up with it.
func (r *Relay) batch(ctx context.Context, held Parts, owners []string, now time.Time) (published int, more Parts, released bool, err error) {
	events, more, err := r.o.Box.Next(ctx, Query{Parts: held, Limit: r.o.Batch, Now: now, Owners: owners})
	if err != nil || len(events) == 0 {
		return 0, 0, false, err
	}
	res, err := r.publish(ctx, events)
	if err != nil {
		return 0, 0, false, err
	}
	last, cancel := lasting(ctx)
	defer cancel()
	for _, no := range res.refused {
		if err := r.refuse(last, no); err != nil {
			return 0, 0, false, fmt.Errorf("%d published events could not be deleted and will be published again: %w", len(res.taken), err)
		}
	}
	if len(res.taken) < len(events) {
		// Events that are neither accepted nor refused are tried in the next turn.
		for _, e := range events {
			more |= PartsOf(Partition(e.Owner, e.Stream))
		}
	}
	if len(res.taken) == 0 {
		return 0, more, false, nil
	}
	if err := r.o.Box.Done(last, r.holder, held, res.taken); err != nil {
		return 0, 0, false, fmt.Errorf("%d published events could not be deleted and will be published again: %w", len(res.taken), err)
	}
	oldest := res.taken[0].At
	for _, e := range res.taken {
		if e.At.Before(oldest) {
			oldest = e.At
		}
	}
	r.o.Observe(len(res.taken), r.o.Clock().Sub(oldest), nil)
	return len(res.taken), more, true, nil
}

const (
	// minRefused and maxRefused limit the wait after a refusal, which doubles each time.
	minRefused = 200 * time.Millisecond
	maxRefused = 5 * time.Minute
)

// refuse records a rejected event, and logs it when it becomes a dead letter.
func (r *Relay) refuse(ctx context.Context, no refused) error {
	var (
		d        Decision
		attempts int
	)
	err := r.o.Box.Refuse(ctx, no.event, no.reason, func(n int) Decision {
		attempts, d = n, Decision{At: time.Now(), SetAside: no.event.Class != ClassAudit && (no.permanent || n >= r.o.Attempts)}
		d.Next = d.At.Add(pause(minRefused, maxRefused, n-1))
		return d
	})
	if err != nil {
		return err
	}
	e := &no.event
	if !d.SetAside {
		if next := &r.refused[Partition(e.Owner, e.Stream)]; next.IsZero() || d.Next.Before(*next) {
			*next = d.Next
		}
		if attempts == r.o.Attempts {
			r.o.Log.Error("event delays its successors because the sink rejects it", "event", e.Name, "owner", e.Owner, "topic", e.Topic,
				"attempts", attempts, "error", no.reason)
		}
		return nil
	}
	r.o.Log.Error("event set aside because the sink rejects it", "owner", e.Owner, "stream", e.Stream, "seq", e.Seq,
		"topic", e.Topic, "attempts", attempts, "error", no.reason, "hint", r.o.Hint)
	return nil
}
