package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/guest"
	"holdfast/internal/guest/telemetry"
)

const sqlAppend = `INSERT INTO bff_consumer_outbox (id, topic, ordering_key, subject, payload, headers, retention_class, created_at)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?)`

// sqlAppendOnce ignores an event that was appended before, when the commit's result was lost.
const sqlAppendOnce = sqlAppend + ` ON CONFLICT (id) DO NOTHING`

// append adds events to the outbox, in the mutation's transaction. The session is their ordering key.
func (t *tx) append(events ...guest.Event) error {
	for i := range events {
		if err := appendEvent(t.c, sqlAppend, &telemetry.SessionEvent{Session: t.session, Trace: t.trace, Event: events[i]}); err != nil {
			return err
		}
		t.appended = true
	}
	return nil
}

// Record implements telemetry.Store.
func (s *Store) Record(ctx context.Context, of telemetry.Record) (guest.Once[telemetry.Recorded], error) {
	return mutate(ctx, s, "record", of.Mutation, func(t *tx) (telemetry.Recorded, error) {
		r, events := of.Decide(t.now)
		return r, t.append(events...)
	})
}

// appendEvent adds an event with an INSERT statement.
func appendEvent(c *sqlite.Conn, sql string, e *telemetry.SessionEvent) error {
	return sqlitedb.Exec(c, sql, string(e.ID), e.Type, string(e.Session), e.Subject, string(e.Payload), e.Headers(e.Trace), e.Retention, e.At.UnixMicro())
}

// AppendEvents needs no locks, because the writer excludes mutations in progress.
func (s *Store) AppendEvents(ctx context.Context, all []telemetry.SessionEvent) (rest []telemetry.SessionEvent, err error) {
	err = s.db.Write(ctx, "append_events", func(c *sqlite.Conn) error {
		for i := range all {
			if err := appendEvent(c, sqlAppendOnce, &all[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		for i := range all {
			s.waker.Wake(string(all[i].Session), "")
		}
	}
	return nil, err
}
