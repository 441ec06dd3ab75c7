// Package outbox publishes the events of a service, and only those that were
// committed.
//
// A service appends an event in the transaction of the change that it reports, to
// a table of its own, which the packages sqlite and postgres describe, and wakes
// the Relay of its process with a Waker. The Relay publishes what is in the table
// to a Sink and then deletes it; how long a published event is kept is up to the
// sink.
//
// An event of a committed transaction is published at least once, or set aside
// when the sink keeps refusing it. An event of a transaction that was rolled back
// is never published. Within a stream, events are published in the order of their
// numbers. After a crash, or when a deletion fails, some are published again, in
// that order; consumers recognize them by Owner, Stream and Seq.
package outbox

import (
	"context"
	"encoding/json"
	"time"
)

// Event is a thing that has happened.
type Event struct {
	// Owner is the distribution column on Citus, such as a tenant.
	Owner string
	// Stream is the part of the owner's events that is ordered: owner and stream
	// together are the ordering key.
	Stream string
	// Seq numbers the stream's events, above 0. The service assigns it under a
	// lock of the stream that it holds until the commit, so that numbers become
	// visible in order. Gaps are harmless; a number must not be used twice.
	Seq     int64
	Topic   string
	Key     string          // what the event is about, in the words of its topic
	Payload json.RawMessage // any JSON; small, since a batch of events is in memory
	At      time.Time       // to the microsecond

	// Position is where the box has the event. Next sets it, Done and Refuse use it;
	// 0 in other events, and where a box needs none.
	Position int64
}

// ID identifies an event.
type ID struct {
	Owner, Stream string
	Seq           int64
}

// ID returns the event's identity.
func (e *Event) ID() ID { return ID{e.Owner, e.Stream, e.Seq} }

// Table names a service's table of events and the columns of its owner and stream
// in the service's own words, such as tenant_id. The names are constants of the
// service and stand in SQL as they are.
type Table struct {
	Name, Owner, Stream string

	// Type is the type of owner and stream in PostgreSQL: uuid or text.
	Type string
}

// Box is a table of events as the Relay needs it, with its leases.
type Box interface {
	// Claim takes the leases of those of the partitions that no other holder has,
	// renews those that the holder has, and returns both. It never takes a lease
	// that another holder has and that has not expired.
	Claim(ctx context.Context, holder string, lease time.Duration, parts Parts) (Parts, error)

	// Release ends those of the leases that the holder has.
	Release(ctx context.Context, holder string, parts Parts) error

	// Next returns the first events of each stream, in the order of their
	// numbers, without those of streams that wait for a refused event. more is
	// the partitions that may have further events, because the limit was reached.
	// One busy partition does not keep the others out of a batch for long: the batch
	// is split among the partitions, or has the events that were appended first.
	Next(ctx context.Context, q Query) (events []Event, more Parts, err error)

	// Done deletes events that Next returned and that are published, and then ends the holder's leases of the
	// partitions. Some events may be deleted although the error is not nil.
	Done(ctx context.Context, holder string, parts Parts, events []Event) error

	// Refuse counts a refusal of an event by the sink, and does what decide
	// returns for the number of refusals so far, this one included: the event and
	// its successors in the stream wait until a time, or it is set aside.
	Refuse(ctx context.Context, e Event, reason string, decide func(attempts int) Decision) error

	Dead
}

// Query selects events.
type Query struct {
	Parts Parts
	Limit int
	Now   time.Time // which streams still wait for a refused event

	// Owners are the only ones with new events; nil when that is not known. A box
	// may return events of others too.
	Owners []string
}

// Decision is what becomes of a refused event.
type Decision struct {
	SetAside bool
	At       time.Time // now
	Next     time.Time // when the event is tried again, unless it is set aside
}

// Dead is the table of the events that were set aside.
type Dead interface {
	// CountDead returns how many there are.
	CountDead(ctx context.Context) (int, error)

	// ListDead returns the first ones after an event, in the order of owner,
	// stream and number; the zero ID is before all.
	ListDead(ctx context.Context, after ID, limit int) ([]DeadEvent, error)

	// RetryDead puts an event back, to be published after events that were
	// appended later; false when it is not there.
	RetryDead(ctx context.Context, id ID) (bool, error)

	// DropDead deletes an event unpublished; false when it is not there.
	DropDead(ctx context.Context, id ID) (bool, error)
}

// DeadEvent is an event that was set aside.
type DeadEvent struct {
	Event
	Attempts int       // how often the sink refused it
	Reason   string    // of the last refusal
	DiedAt   time.Time // to the microsecond
}
