// Package outbox publishes a service's committed events.
//
// A committed event is published at least once, or becomes a dead letter if the sink keeps rejecting it. Within a
// stream, events are published in Seq order. After a crash or a failed delete, some events are published again, in
// the same order; consumers recognize them by Owner, Stream and Seq.
package outbox

import (
	"context"
	"encoding/json"
	"time"
)

// Event is a change of a service's data for other systems. It is stored in the transaction of the change.
type Event struct {
	// Owner is the distribution column on Citus, e.g. a tenant.
	Owner string
	// Owner and Stream form the ordering key.
	Stream string
	// Seq numbers the stream's events from 1. The service assigns it under a stream lock held until commit, so that
	// numbers become visible in order. Gaps are allowed, duplicates are not.
	Seq     int64
	Topic   string          // kind of event
	Key     string          // subject; its form depends on the topic
	Payload json.RawMessage // any JSON; small, because batches are in memory
	At      time.Time       // time of the change

	// Position is set by Next for Done and Refuse, if the box needs it.
	Position int64

	// Name and Headers are only set by boxes that keep published events.
	Name    string
	Headers json.RawMessage // object of strings
	Class   string          // retention class
}

// ClassAudit is the retention class of events that never become dead letters.
const ClassAudit = "audit"

// ID identifies an event.
type ID struct {
	Owner, Stream string
	Seq           int64
}

func (e *Event) ID() ID { return ID{e.Owner, e.Stream, e.Seq} }

// Table names a service's event table and its owner and stream columns, e.g. tenant_id. Names are inserted into SQL
// unescaped.
type Table struct {
	Name, Owner, Stream string

	// Type is the PostgreSQL type of owner and stream: uuid or text.
	Type string

	// ByTopic gives each topic its own leases, so that topics do not wait for each other. A stream's events with
	// different topics are unordered.
	ByTopic bool
}

// Box is the event table and its leases, as used by Relay. It is safe for concurrent use. Parameters are not changed, and
// results belong to the caller.
type Box interface {
	// Claim renews the holder's leases among parts, takes those that are free or expired, and returns all that the holder
	// now has. holder is unique for each relay.
	Claim(ctx context.Context, holder string, lease time.Duration, parts Parts) (Parts, error)

	// Release gives up the holder's leases among parts. It ignores others.
	Release(ctx context.Context, holder string, parts Parts) error

	// Next returns each stream's first events in order, except streams waiting for a refused event. more are the
	// partitions that may have more events beyond the limit. The batch is split among partitions, or takes the oldest
	// events first, so that a busy partition does not block the others.
	Next(ctx context.Context, q Query) (events []Event, more Parts, err error)

	// Done deletes published events, then releases the partitions' leases. After an error, some events may be
	// deleted.
	Done(ctx context.Context, holder string, parts Parts, events []Event) error

	// Refuse counts a refusal and applies the Decision for this count: the event and its stream wait, or the event
	// becomes a dead letter. decide may be called again after a conflict, and must not block.
	Refuse(ctx context.Context, e Event, reason string, decide func(attempts int) Decision) error

	Dead
}

// Distributed is a Box whose database may be distributed. Relays poll it less often, because a Query without owners
// reads on every server.
type Distributed interface {
	Box

	// Distributed reports whether the database is distributed now.
	Distributed(ctx context.Context) (bool, error)
}

// Counted is a Box that counts its backlog.
type Counted interface {
	Box

	// Backlog counts the events neither published nor dead, up to MaxBacklog, and returns the oldest event's time, which is
	// zero if none waits.
	Backlog(ctx context.Context) (n int, oldest time.Time, err error)
}

// Retaining is a Box that keeps published events until they are dropped. An event's Owner is its ordering key, Stream
// is empty, and Seq is its position.
type Retaining interface {
	Counted

	// ListWaiting returns unpublished events after a position, in order.
	ListWaiting(ctx context.Context, after int64, limit int) ([]WaitingEvent, error)

	// FindWaiting returns an unpublished event's position by its Name.
	FindWaiting(ctx context.Context, name string) (position int64, found bool, err error)

	// FindDead returns a dead letter's ID by its Name.
	FindDead(ctx context.Context, name string) (id ID, found bool, err error)

	// ListPublished returns kept events after a Name, in the order of names.
	ListPublished(ctx context.Context, after string, limit int) ([]PublishedEvent, error)

	// Republish makes kept events unpublished again, and returns how many exist.
	Republish(ctx context.Context, names []string) (int, error)

	// DropPublished deletes up to limit kept events in a class that were published before a time, and returns their
	// number; fewer than limit mean that none is left.
	DropPublished(ctx context.Context, class string, before time.Time, limit int) (int, error)
}

// MaxBacklog is the largest backlog that is counted.
const MaxBacklog = 1_000_000

// MaxDead is the largest number of dead letters that is counted.
const MaxDead = 100_000

// WaitingEvent is an event that is not published yet.
type WaitingEvent struct {
	Event
	Attempts int       // refusals so far
	Reason   string    // of the last refusal
	Next     time.Time // when it is tried again; zero: at once
}

// PublishedEvent is an event that a Retaining box keeps.
type PublishedEvent struct {
	Event
	Published time.Time // database clock, at least to the second
}

// Query selects events for Box.Next.
type Query struct {
	Parts Parts     // partitions, leased to the caller
	Limit int       // events
	Now   time.Time // decides which streams still wait for a refused event

	// Owners are the only owners with new events; nil means unknown. A box may ignore it.
	Owners []string
}

// Decision determines a refused event's fate.
type Decision struct {
	SetAside bool      // the event becomes a dead letter
	At       time.Time // time of the decision
	Next     time.Time // when a waiting event is tried again
}

// Dead is the part of a Box for dead letters: events that were set aside.
type Dead interface {
	// CountDead returns their number, at most MaxDead.
	CountDead(ctx context.Context) (int, error)

	// ListDead returns up to limit dead letters after an ID, in the order of IDs; the zero ID begins at the first.
	ListDead(ctx context.Context, after ID, limit int) ([]DeadEvent, error)

	// RetryDead requeues an event behind later events. It returns false if the event does not exist, like DropDead.
	RetryDead(ctx context.Context, id ID) (bool, error)

	// DropDead deletes a dead letter for good.
	DropDead(ctx context.Context, id ID) (bool, error)
}

// DeadEvent is a dead letter.
type DeadEvent struct {
	Event
	Attempts int       // refusals
	Reason   string    // of the last refusal
	DiedAt   time.Time // to the microsecond
}

const deadPage = 500

// EachDead calls fn with each dead event, until it returns an error.
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
