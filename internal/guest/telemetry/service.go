// Package telemetry publishes guest activity: page views, funnel events, searches and property views. It writes to
// the outbox only.
package telemetry

import (
	"context"
	"sync/atomic"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
)

type Service struct {
	opts     Options
	samples  atomic.Pointer[SampleRates]
	observed observed
}

// Options are a Service's dependencies, all required but Recorded.
type Options struct {
	Guests  *guest.Service
	Store   Store
	Clock   clock.Clock
	Samples SampleRates

	// Recorded is called with a telemetry kind, a result (Published, SampledOut or Dropped) and the number of items.
	Recorded func(kind, result string, n int)
}

// New also drops buffered events when a session is erased.
func New(o Options) *Service {
	s := &Service{opts: o}
	s.SetSamples(o.Samples)
	o.Guests.OnErase(s.observed.drop)
	return s
}

func (s *Service) profile() *guest.Profile { return s.opts.Guests.Profile() }

func (s *Service) SetSamples(r SampleRates) { s.samples.Store(&r) }

func (s *Service) Samples() SampleRates { return *s.samples.Load() }

type Store interface {
	Record(ctx context.Context, r Record) (guest.Once[Recorded], error)

	// AppendEvents appends events in order, in a transaction. It does not wait for mutations: rest holds the events
	// for sessions with a mutation in progress.
	AppendEvents(ctx context.Context, all []SessionEvent) (rest []SessionEvent, err error)
}

// SessionEvent is a session's event outside any mutation.
type SessionEvent struct {
	Session guest.ID
	Trace   guest.Trace
	guest.Event
}
