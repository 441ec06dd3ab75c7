// Package outbox publishes the events of a service, and only those that were
// committed.
//
// A service appends an event in the transaction of the change that it reports, to its
// own table (see packages sqlite and postgres), and wakes the Relay of its process
// with a Waker. The Relay publishes the events of the table to a Sink and then deletes
// them, or marks them as published in a table that keeps them (Retaining). Where they are
// deleted, the sink decides how long published events are kept.
//
// An event of a committed transaction is published at least once, or set aside if the
// sink keeps rejecting it. An event of a transaction that was rolled back is never
// published. Within a stream, events are published in the order of their numbers.
// After a crash or a failed deletion some are published again, in the same order;
// consumers recognize them by Owner, Stream and Seq.
package outbox

import (
	"context"
	"encoding/json"
	"time"
)

// Event is an event of a service.
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
	Key     string          // subject of the event; its form depends on the topic
	Payload json.RawMessage // any JSON; small, since a batch of events is in memory
	At      time.Time       // to the microsecond

	// Position is the location of the event in the box. Next sets it; Done and Refuse use
	// it. It is 0 in other events and in boxes that do not need it.
	Position int64

	// Only boxes that keep published events have these.
	Name    string          // unique ID of the event
	Headers json.RawMessage // object of strings
	Class   string          // retention class
}

// ClassAudit is the retention class of events that are never set aside: they are tried
// until they are published.
const ClassAudit = "audit"

// ID identifies an event.
type ID struct {
	Owner, Stream string
	Seq           int64
}

// ID returns the ID of the event.
func (e *Event) ID() ID { return ID{e.Owner, e.Stream, e.Seq} }

// Table has the name of a service's table of events and of its columns for owner and
// stream, such as tenant_id. The names are constants of the service and are inserted into
// SQL unescaped.
type Table struct {
	Name, Owner, Stream string

	// Type is the type of owner and stream in PostgreSQL: uuid or text.
	Type string

	// ByTopic gives each topic leases of its own, so that relays of different topics do not wait for each other. A stream
	// whose topic changes has no order between the topics.
	ByTopic bool
}

// Box is the table of events as the Relay uses it, with leases.
type Box interface {
	// Claim takes the leases of the partitions that no other holder has, renews those of
	// the holder, and returns both. It never takes a lease of another holder that has not
	// expired.
	Claim(ctx context.Context, holder string, lease time.Duration, parts Parts) (Parts, error)

	// Release releases those of the leases that the holder has.
	Release(ctx context.Context, holder string, parts Parts) error

	// Next returns the first events of each stream in order, without streams that wait
	// for a refused event. more is the set of partitions that may have further events
	// because the limit was reached. The batch is split among the partitions, or has the
	// events that were appended first, so that a busy partition does not block the others
	// for long.
	Next(ctx context.Context, q Query) (events []Event, more Parts, err error)

	// Done deletes published events that Next returned, and then releases the leases of
	// the partitions. Some events may be deleted although the error is not nil.
	Done(ctx context.Context, holder string, parts Parts, events []Event) error

	// Refuse counts a refusal of an event by the sink and applies the Decision for the
	// number of refusals so far, including this one: the event and its successors in the
	// stream wait until a time, or the event is set aside.
	Refuse(ctx context.Context, e Event, reason string, decide func(attempts int) Decision) error

	Dead
}

// Distributed is a Box that may be in a database whose every server reads the table for a Query
// without owners. Relays poll it less often.
type Distributed interface {
	Box

	// Distributed reports whether the database is one.
	Distributed(ctx context.Context) (bool, error)
}

// Counted is a Box that counts the events that wait.
type Counted interface {
	Box

	// Backlog returns the number of events that are neither published nor set aside, at
	// most MaxBacklog, and the time of the oldest, which is zero without events.
	Backlog(ctx context.Context) (n int, oldest time.Time, err error)
}

// Retaining is a Box whose table keeps published events until they are dropped. An event of it
// has its ordering key as Owner, no Stream, and its position as Seq.
type Retaining interface {
	Counted

	// ListWaiting returns the next events after a position that are neither published nor
	// set aside.
	ListWaiting(ctx context.Context, after int64, limit int) ([]WaitingEvent, error)

	// FindWaiting returns the position of an event that ListWaiting lists, by its name.
	FindWaiting(ctx context.Context, name string) (position int64, found bool, err error)

	// FindDead returns the ID of an event that was set aside, by its name.
	FindDead(ctx context.Context, name string) (id ID, found bool, err error)

	// ListPublished returns the next published events after a name, in the order of names. Names that
	// begin with their time are in its order.
	ListPublished(ctx context.Context, after string, limit int) ([]PublishedEvent, error)

	// Republish queues those of the named events that are published to be published again, in the
	// order of their positions, and returns their number.
	Republish(ctx context.Context, names []string) (int, error)

	// DropPublished deletes at most limit events of a class that were published before a
	// time, and returns their number.
	DropPublished(ctx context.Context, class string, before time.Time, limit int) (int, error)
}

// MaxBacklog is the number of events up to which a backlog is counted.
const MaxBacklog = 1_000_000

// MaxDead is the number up to which events that were set aside are counted.
const MaxDead = 100_000

// WaitingEvent is an event that is not published yet.
type WaitingEvent struct {
	Event
	Attempts int       // how often the sink refused it
	Reason   string    // of the last refusal
	Next     time.Time // when it is tried again; zero: now
}

// PublishedEvent is an event that was published.
type PublishedEvent struct {
	Event
	Published time.Time // by the clock of the database, to the second at least
}

// Query selects events.
type Query struct {
	Parts Parts
	Limit int
	Now   time.Time // which streams still wait for a refused event

	// Owners are the only owners with new events; nil if unknown. A box may return events
	// of other owners too.
	Owners []string
}

// Decision says what to do with a refused event.
type Decision struct {
	SetAside bool
	At       time.Time // now
	Next     time.Time // when the event is tried again, unless it is set aside
}

// Dead is the table of the events that were set aside.
type Dead interface {
	// CountDead returns their number, up to MaxDead.
	CountDead(ctx context.Context) (int, error)

	// ListDead returns the next events after one, ordered by owner, stream and number;
	// the zero ID starts at the beginning.
	ListDead(ctx context.Context, after ID, limit int) ([]DeadEvent, error)

	// RetryDead queues an event again, after events that were appended later. It returns
	// false if the event does not exist.
	RetryDead(ctx context.Context, id ID) (bool, error)

	// DropDead deletes an event without publishing it. It returns false if the event does
	// not exist.
	DropDead(ctx context.Context, id ID) (bool, error)
}

// DeadEvent is an event that was set aside.
type DeadEvent struct {
	Event
	Attempts int       // how often the sink refused it
	Reason   string    // of the last refusal
	DiedAt   time.Time // to the microsecond
}

// deadPage is how many events EachDead reads at once.
const deadPage = 500

// EachDead calls fn with the events that were set aside, until it returns an error.
func EachDead(ctx context.Context, box Dead, fn func(*DeadEvent) error) error {
	for after := (ID{}); ; {
		page, err := box.ListDead(ctx, after, deadPage)
		if err != nil {
			return err
		}
		for i := range page {
			if err := fn(&page[i]); err != nil {
				return err
			}
			after = page[i].ID()
		}
		if len(page) < deadPage {
			return nil
		}
	}
}
