package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/buckets"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/outbox"
	outboxpg "holdfast/internal/outbox/postgres"
)

var (
	sqlAppendEvents = pgdb.NewNamed(pgdb.Statement{Name: "buckets.append_events", Key: 1, SQL: `SELECT bucket_append_events_v1(...)`}, appending.args)
	sqlBacklogs     = pgdb.Statement{Name: "buckets.event_backlogs", Wide: true, SQL: `SELECT topic, count(*), min(created_at) FROM manta_bucket_event GROUP BY topic ORDER BY topic`}
	// sqlEventCutoff returns the time of the first event that remains after dropping the excess.
	sqlEventCutoff = pgdb.Statement{Name: "buckets.event_cutoff", Wide: true, SQL: `
		SELECT created_at FROM manta_bucket_event WHERE topic = $1::text ORDER BY created_at OFFSET $2::bigint LIMIT 1`}
	sqlDropEvents = pgdb.Statement{Name: "buckets.drop_events", Wide: true, SQL: `DELETE FROM manta_bucket_event WHERE topic = $1::text AND created_at < $2::timestamptz`}
	sqlDropDead   = pgdb.Statement{Name: "buckets.drop_dead_events", Wide: true, SQL: `DELETE FROM manta_bucket_event_refused WHERE next_at IS NULL AND refused_at < $1::timestamptz`}
)

// eventTable uses each destination as a topic.
var eventTable = outboxpg.New(outbox.Table{Name: "manta_bucket_event", Owner: "owner", Stream: "stream", Type: "uuid", ByTopic: true})

// OnEvents sets the function called after each commit with events. Call it before the store is used.
func (s *Store) OnEvents(wake func(destination, owner, stream string)) { s.wake = wake }

// Outbox returns a destination's events for delivery. Times are the database's.
func (s *Store) Outbox(destination string) outbox.Box {
	return eventTable.OpenTopic(s.db, destination)
}

// DeadEvents returns the events that no destination accepted.
func (s *Store) DeadEvents() outbox.Dead { return eventTable.Open(s.db) }

// appending holds the parameters for bucket_append_events_v1: an element per event.
type appending struct {
	owner                           buckets.AccountID
	streams, topics, keys, payloads []string
	parts                           []int16
	at                              time.Time
}

// args names and orders the parameters for pgdb.
func (a appending) args() []pgdb.Arg {
	return []pgdb.Arg{
		{Param: "p_owner uuid", Value: string(a.owner)},
		{Param: "p_streams text[]::uuid[]", Value: a.streams},
		{Param: "p_parts smallint[]", Value: a.parts},
		{Param: "p_topics text[]", Value: a.topics},
		{Param: "p_keys text[]", Value: a.keys},
		{Param: "p_payloads text[]", Value: a.payloads},
		{Param: "p_at timestamptz", Value: a.at},
	}
}

// appendEvents requires that the caller has locked the object name.
func appendEvents(tx *pgdb.Tx, owner buckets.AccountID, all []buckets.Event) error {
	if len(all) == 0 {
		return nil
	}
	a := appending{owner: owner, at: at(all[0].At)}
	for i := range all {
		e := &all[i]
		a.streams, a.parts = append(a.streams, e.Stream), append(a.parts, int16(outbox.Partition(string(owner), e.Stream)))
		a.topics, a.keys, a.payloads = append(a.topics, e.Destination), append(a.keys, e.Key), append(a.payloads, string(e.Payload))
	}
	_, err := tx.Exec(sqlAppendEvents.Statement, sqlAppendEvents.Args(a)...)
	return err
}

// appended wakes the outbox after the commit. Another process finds the events by polling.
func (s *Store) appended(owner buckets.AccountID, all []buckets.Event) {
	for i := range all {
		s.wake(all[i].Destination, string(owner), all[i].Stream)
	}
}

// notifying runs write in a transaction that locks the object's name first, and appends the events that write returns.
// So events of a name have the order in which its writes commit.
func (s *Store) notifying(ctx context.Context, name string, k objectKey, write func(tx *pgdb.Tx) ([]buckets.Event, error)) error {
	var events []buckets.Event
	err := s.db.Tx(ctx, name, func(tx *pgdb.Tx) error {
		if err := lock(tx, k.owner, k.bucket, k.name); err != nil {
			return err
		}
		var err error
		if events, err = write(tx); err != nil {
			return err
		}
		return appendEvents(tx, k.owner, events)
	})
	if err == nil {
		s.appended(k.owner, events)
	}
	return err
}

// objectKey names an object, existing or not.
type objectKey struct {
	owner  buckets.AccountID
	bucket buckets.BucketRef
	name   string
}

// Backlogs implements buckets.Events.
func (s *Store) Backlogs(ctx context.Context) (all []buckets.EventBacklog, err error) {
	var b buckets.EventBacklog
	var oldest pgtype.Timestamptz
	err = s.db.ForEach(ctx, sqlBacklogs, nil, func() { all = nil }, func() error {
		b.Oldest = momentOf(oldest)
		all = append(all, b)
		return nil
	}, &b.Destination, &b.Events, &oldest)
	return all, err
}

// DropEvents implements buckets.Events.
func (s *Store) DropEvents(ctx context.Context, destination string, before buckets.Moment, excess int64) (int64, error) {
	if excess > 0 {
		var cutoff pgtype.Timestamptz
		found, err := s.db.QueryRow(ctx, sqlEventCutoff, []any{destination, excess}, &cutoff)
		if err != nil {
			return 0, err
		}
		if !found {
			cutoff.Time = time.Now().Add(time.Hour) // after all events, because fewer than excess are left by now
		}
		before = max(before, buckets.At(cutoff.Time))
	}
	return s.db.Exec(ctx, sqlDropEvents, destination, at(before))
}

// DropDeadEvents implements buckets.Events.
func (s *Store) DropDeadEvents(ctx context.Context, before buckets.Moment) (int64, error) {
	return s.db.Exec(ctx, sqlDropDead, at(before))
}
