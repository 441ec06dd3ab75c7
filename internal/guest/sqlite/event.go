package sqlite

import (
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/guest"
)

const sqlAppend = `INSERT INTO bff_consumer_outbox (id, topic, ordering_key, subject, payload, headers, retention_class, created_at)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?)`

// Append implements guest.Tx.
func (t *tx) Append(events ...guest.Event) error {
	for i := range events {
		e := &events[i]
		err := sqlitedb.Exec(t.c, sqlAppend, string(e.ID), e.Type, string(t.session), e.Subject, string(e.Payload), e.Headers(t.trace), e.Retention, e.At.UnixMicro())
		if err != nil {
			return err
		}
		t.appended = true
	}
	return nil
}
