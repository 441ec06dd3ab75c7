// Package outbox hands on what has happened in a room, and only what has.
//
// A room appends an event in the transaction of the change that it tells of: to
// a table of its own, which the packages sqlite and postgres describe. A Relay
// publishes what is in the table to a Sink and then deletes it; how long a
// published event is kept is the sink's affair.
//
// What is promised: an event of a transaction that was committed is published at
// least once, one of a transaction that was not is never. Within a stream events
// are published in the order of their numbers. After a crash, or when a deletion
// fails, some are published again, in that order; who takes them tells them apart
// by Owner, Stream and Seq.
package outbox

import (
	"context"
	"encoding/json"
	"time"
)

// Event is a thing that has happened.
type Event struct {
	// Owner is whose it is, and what the table is distributed by on Citus.
	Owner string
	// Stream is a part of the owner's events that are in order.
	Stream string
	// Seq numbers the stream's events, above 0. The room gives it out under a
	// lock of the stream that it holds until the commit, so that numbers become
	// visible in their order; gaps do no harm, a number that was given to two
	// events does.
	Seq     int64
	Topic   string
	Key     string          // what the event is about, in the words of its topic
	Payload json.RawMessage // any JSON; small, since a batch of events is in memory
	At      time.Time       // to the microsecond
}

// Sink is where events go. Publish returns nil when all of them are safe there.
// After an error all come again, however many of them were taken. Its context
// ends before another process may take over; one that goes on after that may
// publish beside the other.
//
// Events are held up by those before them. So an error is for what passes; what
// a sink will never be able to take it must put aside itself.
type Sink interface {
	Publish(ctx context.Context, events []Event) error
}

// Table names a room's table of events and the columns of its owner and stream
// in the room's own words, such as tenant_id. The names are constants of the
// room and stand in SQL as they are.
type Table struct {
	Name, Owner, Stream string

	// Type is what owner and stream are in PostgreSQL: uuid or text.
	Type string
}

// Box is a table of events as the Relay needs it.
type Box interface {
	// Claim says whether the holder may publish, alone of all processes, for the
	// length of the lease. It is true again for the holder of a lease that runs.
	Claim(ctx context.Context, holder string, lease time.Duration) (bool, error)

	// Release ends the lease, if it is the holder's.
	Release(ctx context.Context, holder string) error

	// Next returns the first events in the order of owner, stream and number.
	Next(ctx context.Context, limit int) ([]Event, error)

	// Done deletes events that Next has returned, in that order. Some may be
	// deleted although the error is not nil.
	Done(ctx context.Context, events []Event) error
}
