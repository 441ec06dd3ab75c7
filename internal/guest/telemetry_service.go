package guest

import (
	"context"

	"holdfast/internal/clock"
)

// TelemetryService publishes what guests do. No table has it but the outbox.
type TelemetryService struct {
	TelemetryOptions
	observed observed
}

// TelemetryOptions are what a TelemetryService needs. All but Recorded are required.
type TelemetryOptions struct {
	Guests  *Service
	Store   TelemetryStore
	Clock   clock.Clock
	Samples SampleRates // how much is published

	// Recorded, if set, is called with a kind of telemetry, what becomes of it (Published,
	// SampledOut or Dropped), and the number of items of a request.
	Recorded func(kind, result string, n int)
}

// NewTelemetry returns a service. When a session is erased, it forgets what it has observed.
func NewTelemetry(o TelemetryOptions) *TelemetryService {
	s := &TelemetryService{TelemetryOptions: o}
	o.Guests.OnErase(s.observed.drop)
	return s
}

// TelemetryStore appends events to the outbox.
type TelemetryStore interface {
	// Record appends the events of telemetry to the outbox, in their order. It is a mutation: see
	// SessionStore.
	Record(ctx context.Context, r Record) (Once[Recorded], error)

	// AppendEvents appends events of any sessions to the outbox, in their order and in one
	// transaction. It does not wait for mutations: the events of sessions that have one in
	// progress are returned as rest.
	AppendEvents(ctx context.Context, all []SessionEvent) (rest []SessionEvent, err error)
}

// SessionEvent is an event of a session that belongs to no mutation.
type SessionEvent struct {
	Session ID
	Trace   Trace
	Event
}
