package handoffs

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"holdfast/internal/guest"
)

// Refusal counts the attempts to consume a handoff that were refused for one reason.
type Refusal struct {
	Handoff     guest.ID
	Reason      string
	Attempts    int64
	First, Last time.Time // by the clock of the process that refused them, to the microsecond
}

// ReasonConsumed is the reason of attempts to consume a handoff again.
const ReasonConsumed = "handoff-consumed"

// NewRefusal is attempts that a process has counted, with the event for the first of them.
type NewRefusal struct {
	Refusal
	Session guest.ID    // of the guest
	Trace   guest.Trace // of the first request
	Event   guest.Event // the store sets its time
}

// RefusalStore has a row for each handoff and reason.
type RefusalStore interface {
	// AddRefusals adds attempts to the rows, in one transaction, and appends the event of a
	// row that is new. Each handoff and reason occurs once in all.
	AddRefusals(ctx context.Context, all []NewRefusal) error

	// Refusals returns at most limit rows, the one with the last attempt first.
	Refusals(ctx context.Context, limit int) ([]Refusal, error)
}

// refusals are what this process has refused since it last wrote to the database. The first
// refusal of a handoff waits for the database, which then has its row and its event. Those that
// follow within a second or two are only counted, and written together: a thousand attempts at
// once are two or three writes. Counts of the last second are lost if the process is killed.
type refusals struct {
	flushing sync.Mutex

	mu sync.Mutex
	by map[refusalKey]*pendingRefusal
}

type refusalKey struct {
	handoff guest.ID
	reason  string
}

// pendingRefusal has no attempts when all are written. It is dropped if there are none until the
// next flush.
type pendingRefusal struct {
	NewRefusal
	written bool // the database has the row
}

// maxRefused limits the memory of refusals. The attempts to consume further handoffs are written
// one by one.
const maxRefused = 10_000

// add counts an attempt, and reports whether the caller must write it because it is the first.
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

// settle ends the write of attempts. If it failed they are written by the next flush.
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

// take returns the attempts that are not written, and drops handoffs without any.
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
	slices.SortFunc(all, compareRefusals) // so that two processes lock rows in one order
	return all
}

func compareRefusals(a, b NewRefusal) int {
	return cmp.Or(cmp.Compare(a.Handoff, b.Handoff), cmp.Compare(a.Reason, b.Reason))
}

// refuse counts an attempt that is refused. An error means that it is the first one, and the
// database does not have it: it must be repeated.
func (s *Service) refuse(ctx context.Context, n NewRefusal) error {
	at := s.opts.Clock().Truncate(time.Microsecond).UTC()
	n.Attempts, n.First, n.Last = 1, at, at
	if !s.refusals.add(n) {
		return nil
	}
	one := []NewRefusal{n}
	err := s.opts.Store.AddRefusals(context.WithoutCancel(ctx), one)
	s.refusals.settle(one, err != nil)
	return err
}

// refusalStep is how many handoffs a transaction counts.
const refusalStep = 500

// Refusals is RefusalStore.Refusals. It first writes the attempts that this process has counted.
func (s *Service) Refusals(ctx context.Context, limit int) ([]Refusal, error) {
	if err := s.FlushRefusals(ctx); err != nil {
		return nil, err
	}
	return s.opts.Store.Refusals(ctx, limit)
}

// FlushRefusals writes the attempts that were counted to the database.
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

// Repair writes the attempts that were counted to the database. It is a step for guest.Run.
func (s *Service) Repair(ctx context.Context) {
	_ = s.FlushRefusals(ctx) // the next step tries again
}
