// Package telemetry publishes guest activity: page views, funnel events, searches and property views. It writes to
// the outbox only.
package telemetry

import (
	"context"
	"sync/atomic"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
)

// Service publishes telemetry as events: batches that front ends send, in a transaction, and observations of the
// server, through a buffer. It is safe for concurrent use.
type Service struct {
	opts     Options
	samples  atomic.Pointer[SampleRates]
	observed observed
}

// Options are a Service's dependencies, all required but Recorded.
type Options struct {
	// remembers answers to repeated requests and knows the profile
	Guests *guest.Service
	Store  Store
	Clock  clock.Clock
	// the initial rates; see SetSamples
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

// profile returns the site's profile.
func (s *Service) profile() *guest.Profile { return s.opts.Guests.Profile() }

// SetSamples replaces the rates, after a reload of the configuration.
func (s *Service) SetSamples(r SampleRates) { s.samples.Store(&r) }

// Samples returns the current rates.
func (s *Service) Samples() SampleRates { return *s.samples.Load() }

// Store is the part of the guest database that appends telemetry to the outbox. It keeps to the rules of guest.Store.
type Store interface {
	// Record calls r.Decide and appends the events in the mutation's transaction, or returns the stored answer to an
	// earlier request with the same idempotency key (Once.Replayed). Errors are as for guest.Store's mutations.
	Record(ctx context.Context, r Record) (guest.Once[Recorded], error)

	// AppendEvents appends events in order, in a transaction. It does not wait for mutations: rest holds the events
	// for sessions with a mutation in progress.
	AppendEvents(ctx context.Context, all []SessionEvent) (rest []SessionEvent, err error)
}

// SessionEvent is a session's event outside any mutation.
type SessionEvent struct {
	Session guest.ID
	// the request's trace, for the event's traceparent
	Trace guest.Trace
	guest.Event
}
