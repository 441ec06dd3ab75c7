package postgres

import (
	"time"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/guest"
)

// Positions have the order of the arrays.
var sqlAppend = pgdb.Statement{Name: "guest.append", SQL: `
	INSERT INTO bff_consumer.outbox (id, topic, ordering_key, subject, payload, headers, retention_class, created_at)
	SELECT e.id, e.topic, $1, e.subject, e.payload::json, e.headers::jsonb, e.class, e.at
	FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[])
		WITH ORDINALITY AS e(id, topic, subject, payload, headers, class, at, n) ORDER BY e.n`}

// Append implements guest.Tx.
func (t *tx) Append(events ...guest.Event) error {
	if len(events) == 0 {
		return nil
	}
	var ids, topics, subjects, payloads, headers, classes []string
	var times []time.Time
	for i := range events {
		e := &events[i]
		ids, topics, subjects = append(ids, string(e.ID)), append(topics, e.Type), append(subjects, e.Subject)
		payloads, headers, classes, times = append(payloads, string(e.Payload)), append(headers, e.Headers(t.trace)), append(classes, e.Retention), append(times, e.At)
	}
	t.appended = true
	_, err := t.t.Exec(sqlAppend, string(t.session), ids, topics, subjects, payloads, headers, classes, times)
	return err
}
