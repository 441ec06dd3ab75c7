package sqlite

import (
	"context"
	"math"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/buckets"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/outbox"
	outboxsqlite "holdfast/internal/outbox/sqlite"
)

const (
	sqlLastEvent = `SELECT coalesce(max(seq), 0) FROM manta_bucket_event`
	sqlBacklogs  = `SELECT topic, count(*), min(created_at) FROM manta_bucket_event GROUP BY topic ORDER BY topic`
	// sqlDropEvents drops the oldest events first, except for events that were queued again.
	sqlDropEvents = `DELETE FROM manta_bucket_event WHERE position IN (SELECT position FROM
		(SELECT position, created_at FROM manta_bucket_event WHERE topic = ?1 ORDER BY position LIMIT +?3) WHERE created_at < ?2)`
	sqlDropDead = `DELETE FROM manta_bucket_event_refused WHERE next_at IS NULL AND refused_at < ?1`
)

// eventTable uses each destination as a topic.
var eventTable = outboxsqlite.New(outbox.Table{Name: "manta_bucket_event", Owner: "owner", Stream: "stream", ByTopic: true})

type events struct {
	last int64 // 0 if not read yet
	wake func(destination, owner, stream string)
}

// append appends events, numbered in commit order even if the clock is set back.
func (s *Store) append(c *sqlite.Conn, owner buckets.AccountID, all []buckets.Event) error {
	if len(all) == 0 {
		return nil
	}
	e := &s.events
	if e.last == 0 {
		last, _, err := sqlitedb.QueryRow(c, sqlLastEvent, func(r *sqlite.Stmt) int64 { return r.ColumnInt64(0) })
		if err != nil {
			return err
		}
		e.last = last
	}
	for i := range all {
		e.last = max(int64(all[i].At), e.last+1)
		if err := eventTable.Append(c, outbox.Event{
			Owner: string(owner), Stream: all[i].Stream, Seq: e.last, Topic: all[i].Destination, Key: all[i].Key, Payload: all[i].Payload, At: all[i].At.Time(),
		}); err != nil {
			return err
		}
	}
	return nil
}

// appended wakes the outbox after the commit. A process that stops in between delivers the events at its next start.
func (s *Store) appended(owner buckets.AccountID, all []buckets.Event) {
	for i := range all {
		s.events.wake(all[i].Destination, string(owner), all[i].Stream)
	}
}

// OnEvents sets the function called after each commit with events. Call it before the store is used.
func (s *Store) OnEvents(wake func(destination, owner, stream string)) { s.events.wake = wake }

// Outbox returns a destination's events for delivery. Times are those of this process.
func (s *Store) Outbox(destination string) outbox.Box {
	return eventTable.OpenTopic(s.db, time.Now, destination)
}

// DeadEvents returns the events that no destination accepted.
func (s *Store) DeadEvents() outbox.Dead { return eventTable.Open(s.db, time.Now) }

// Backlogs implements buckets.Events.
func (s *Store) Backlogs(ctx context.Context) (all []buckets.EventBacklog, err error) {
	err = s.db.Read(ctx, "event_backlogs", func(c *sqlite.Conn) error {
		all, err = sqlitedb.QueryAll(c, sqlBacklogs, func(r *sqlite.Stmt) buckets.EventBacklog {
			return buckets.EventBacklog{Destination: r.ColumnText(0), Events: r.ColumnInt64(1), Oldest: buckets.Moment(r.ColumnInt64(2))}
		})
		return err
	})
	return all, err
}

// dropBatch is small so that other writes do not wait long.
const dropBatch = 500

// DropEvents implements buckets.Events.
func (s *Store) DropEvents(ctx context.Context, destination string, before buckets.Moment, excess int64) (dropped int64, err error) {
	for {
		n, until, limit := int64(0), before, int64(dropBatch)
		if excess > dropped {
			until, limit = buckets.Moment(math.MaxInt64), min(excess-dropped, dropBatch)
		}
		err := s.db.Write(ctx, "drop_events", func(c *sqlite.Conn) error {
			err := sqlitedb.Exec(c, sqlDropEvents, destination, until, limit)
			n = int64(c.Changes())
			return err
		})
		if dropped += n; err != nil || n == 0 {
			return dropped, err
		}
	}
}

// DropDeadEvents implements buckets.Events.
func (s *Store) DropDeadEvents(ctx context.Context, before buckets.Moment) (n int64, err error) {
	err = s.db.Write(ctx, "drop_dead_events", func(c *sqlite.Conn) error {
		err := sqlitedb.Exec(c, sqlDropDead, before)
		n = int64(c.Changes())
		return err
	})
	return n, err
}
