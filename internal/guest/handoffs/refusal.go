package handoffs

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"holdfast/internal/guest"
)

// Refusal counts refused attempts to consume a handoff, per reason.
type Refusal struct {
	Handoff     guest.ID
	Reason      string // e.g. ReasonConsumed
	Attempts    int64
	First, Last time.Time // by the refusing process's clock, in microseconds
}

// ReasonConsumed means that the handoff was already consumed.
const ReasonConsumed = "handoff-consumed"

// NewRefusal holds attempts that a process counted, and the event for the first attempt.
type NewRefusal struct {
	Refusal
	Session guest.ID
	Trace   guest.Trace
	Event   guest.Event // the store sets its time
}

// RefusalStore stores a row per handoff and reason.
type RefusalStore interface {
	// AddRefusals adds attempts to the rows in a transaction, and appends each new row's event. Handoff and reason
	// are unique in all.
	AddRefusals(ctx context.Context, all []NewRefusal) error

	// Refusals returns up to limit rows, by their latest attempt, newest first.
	Refusals(ctx context.Context, limit int) ([]Refusal, error)
}

// refusals buffers this process's refusals. A handoff's first refusal waits until the database stores its row and
// event. Later refusals are counted for a second or two and written together, so a thousand attempts cost two or
// three writes. A killed process loses the last second's counts.
type refusals struct {
	flushing sync.Mutex

	mu sync.Mutex
	by map[refusalKey]*pendingRefusal
}

type refusalKey struct {
	handoff guest.ID
	reason  string
}

// pendingRefusal counts unwritten attempts; it is dropped if still zero at the next flush.
type pendingRefusal struct {
	NewRefusal
	written bool
}

// maxRefused limits memory. Attempts on further handoffs are written individually.
const maxRefused = 10_000

// add counts an attempt, and reports whether it is the first, which the caller must write.
func (r *refusals) add(n NewRefusal) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := refusalKey{n.Handoff, n.Reason}
	if p := r.by[key]; p != nil {
		p.merge(n.Refusal)
		return false
	}
	if len(r.by) < maxRefused {
		if r.by == nil {
			r.by = map[refusalKey]*pendingRefusal{}
		}
		r.by[key] = &pendingRefusal{NewRefusal: n}
		r.by[key].Attempts = 0 // the caller writes it
	}
	return true
}

// merge adds attempts.
func (p *pendingRefusal) merge(r Refusal) {
	if p.Attempts == 0 || r.First.Before(p.First) {
		p.First = r.First
	}
	if p.Attempts == 0 || r.Last.After(p.Last) {
		p.Last = r.Last
	}
	p.Attempts += r.Attempts
}

// settle notes the result of a write. After a failure, the counts wait for the next flush.
func (r *refusals) settle(all []NewRefusal, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range all {
		p := r.by[refusalKey{n.Handoff, n.Reason}]
		switch {
		case p == nil:
		case failed:
			p.merge(n.Refusal)
		default:
			p.written = true
		}
	}
}

// take returns the counts to write, and forgets written rows without attempts since.
func (r *refusals) take() (all []NewRefusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, p := range r.by {
		switch {
		case p.Attempts > 0:
			all = append(all, p.NewRefusal)
			p.Attempts = 0
		case p.written:
			delete(r.by, key)
		}
	}
	slices.SortFunc(all, compareRefusals) // same row lock order in all processes
	return all
}

// compareRefusals orders rows, so that concurrent transactions lock them in the same order.
func compareRefusals(a, b NewRefusal) int {
	return cmp.Or(cmp.Compare(a.Handoff, b.Handoff), cmp.Compare(a.Reason, b.Reason))
}

// refuse returns an error if the first attempt was not stored. The client must then repeat it.
func (s *Service) refuse(ctx context.Context, n NewRefusal) error {
	at := s.opts.Clock().Truncate(time.Microsecond).UTC()
	n.Attempts, n.First, n.Last = 1, at, at
	if !s.refusals.add(n) {
		return nil
	}
	single := []NewRefusal{n}
	err := s.opts.Store.AddRefusals(context.WithoutCancel(ctx), single)
	s.refusals.settle(single, err != nil)
	return err
}

// refusalStep is in handoffs per transaction.
const refusalStep = 500

// Refusals flushes this process's counts, then calls RefusalStore.Refusals.
func (s *Service) Refusals(ctx context.Context, limit int) ([]Refusal, error) {
	if err := s.FlushRefusals(ctx); err != nil {
		return nil, err
	}
	return s.opts.Store.Refusals(ctx, limit)
}

// FlushRefusals writes all counts, in steps of refusalStep. After a failed step, the others wait too.
func (s *Service) FlushRefusals(ctx context.Context) error {
	s.refusals.flushing.Lock()
	defer s.refusals.flushing.Unlock()
	all := s.refusals.take()
	var failed error
	for some := range slices.Chunk(all, refusalStep) {
		err := failed
		if err == nil {
			err = s.opts.Store.AddRefusals(ctx, some)
		}
		s.refusals.settle(some, err != nil)
		failed = err
	}
	return failed
}

// Repair is a step for guest.Run. It writes counted refusals.
func (s *Service) Repair(ctx context.Context) {
	_ = s.FlushRefusals(ctx) // retried by the next step
}
