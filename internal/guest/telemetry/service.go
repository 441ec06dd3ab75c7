// Package telemetry publishes what guests do: page views, funnel events, searches and views of properties.
package telemetry

import (
	"context"
	"sync/atomic"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
)

// Service publishes what guests do. No table has it but the outbox.
type Service struct {
	opts     Options
	samples  atomic.Pointer[SampleRates]
	observed observed
}

// Options are the dependencies of a Service. All but Recorded are required.
type Options struct {
	Guests  *guest.Service
	Store   Store
	Clock   clock.Clock
	Samples SampleRates // how much is published

	// Recorded, if set, is called with a kind of telemetry, what becomes of it (Published,
	// SampledOut or Dropped), and the number of items of a request.
	Recorded func(kind, result string, n int)
}

// New returns a service. When a session is erased, it forgets what it has observed.
func New(o Options) *Service {
	s := &Service{opts: o}
	s.SetSamples(o.Samples)
	o.Guests.OnErase(s.observed.drop)
	return s
}

func (s *Service) profile() *guest.Profile { return s.opts.Guests.Profile() }

// SetSamples replaces Options.Samples.
func (s *Service) SetSamples(r SampleRates) { s.samples.Store(&r) }

// Samples returns how much is published.
func (s *Service) Samples() SampleRates { return *s.samples.Load() }

// Store appends events to the outbox.
type Store interface {
	// Record appends the events of telemetry to the outbox, in their order. It is a mutation: see
	// guest.Store.
	Record(ctx context.Context, r Record) (guest.Once[Recorded], error)

	// AppendEvents appends events of any sessions to the outbox, in their order and in one
	// transaction. It does not wait for mutations: the events of sessions that have one in
	// progress are returned as rest.
	AppendEvents(ctx context.Context, all []SessionEvent) (rest []SessionEvent, err error)
}

// SessionEvent is an event of a session that belongs to no mutation.
type SessionEvent struct {
	Session guest.ID
	Trace   guest.Trace
	guest.Event
}
