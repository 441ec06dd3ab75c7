package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/guest"
)

const sqlAppend = `INSERT INTO bff_consumer_outbox (id, topic, ordering_key, subject, payload, headers, retention_class, created_at)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?)`

// sqlAppendOnce ignores an event that is there: it was appended before, and the result of the
// commit was lost.
const sqlAppendOnce = sqlAppend + ` ON CONFLICT (id) DO NOTHING`

// Append implements guest.Tx.
func (t *tx) Append(events ...guest.Event) error {
	for i := range events {
		if err := appendEvent(t.c, sqlAppend, t.session, t.trace, &events[i]); err != nil {
			return err
		}
		t.appended = true
	}
	return nil
}

func appendEvent(c *sqlite.Conn, sql string, session guest.ID, trace guest.Trace, e *guest.Event) error {
	return sqlitedb.Exec(c, sql, string(e.ID), e.Type, string(session), e.Subject, string(e.Payload), e.Headers(trace), e.Retention, e.At.UnixMicro())
}

// AppendEvents implements guest.Store. Nothing is in progress while the writer runs it.
func (s *Store) AppendEvents(ctx context.Context, all []guest.SessionEvent) (rest []guest.SessionEvent, err error) {
	err = s.db.Write(ctx, "append_events", func(c *sqlite.Conn) error {
		for i := range all {
			e := &all[i]
			if err := appendEvent(c, sqlAppendOnce, e.Session, e.Trace, &e.Event); err != nil {
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
