package postgres

import (
	"context"
	"slices"
	"time"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/guest"
	"holdfast/internal/guest/telemetry"
)

var (
	// sqlAppend assigns positions in the order of the arrays.
	sqlAppend = pgdb.NewNamed(pgdb.Statement{Name: "guest.append", SQL: `
		INSERT INTO bff_consumer.outbox (id, topic, ordering_key, subject, payload, headers, retention_class, created_at)
		SELECT e.id, e.topic, e.key, e.subject, e.payload::json, e.headers::jsonb, e.class, e.at
		FROM unnest(@ids, @topics, @keys, @subjects, @payloads, @headers, @classes, @times)
			WITH ORDINALITY AS e(id, topic, key, subject, payload, headers, class, at, n) ORDER BY e.n`}, appending.args)
	// sqlAppendOnce ignores events that were appended before, when the commit's result was lost.
	sqlAppendOnce = pgdb.Statement{Name: "guest.append_once", SQL: sqlAppend.SQL + ` ON CONFLICT (id) DO NOTHING`}
	sqlTryTurns   = pgdb.Statement{Name: "guest.try_turns", SQL: `
		SELECT coalesce(array_agg(s) FILTER (WHERE pg_try_advisory_xact_lock(hashtextextended(s, 4715332))), '{}') FROM unnest($1::text[]) s`}
)

// append adds events to the outbox, in the mutation's transaction. The session is their ordering key.
func (t *tx) append(events ...guest.Event) error {
	if len(events) == 0 {
		return nil
	}
	all := make([]telemetry.SessionEvent, len(events))
	for i, e := range events {
		all[i] = telemetry.SessionEvent{Session: t.session, Trace: t.trace, Event: e}
	}
	t.appended = true
	return appendEvents(t.t, sqlAppend.Statement, all)
}

// Record implements telemetry.Store.
func (s *Store) Record(ctx context.Context, of telemetry.Record) (guest.Once[telemetry.Recorded], error) {
	return mutate(ctx, s, "guest.record", of.Mutation, func(t *tx) (telemetry.Recorded, error) {
		r, events := of.Decide(t.now)
		return r, t.append(events...)
	})
}

// appendEvents queues a statement with all events. The caller locked their sessions.
func appendEvents(t *pgdb.Tx, s pgdb.Statement, all []telemetry.SessionEvent) error {
	return t.Queue(s, sqlAppend.Args(appending{all})...)
}

// appending holds the parameters for new events: an element per event.
type appending struct{ all []telemetry.SessionEvent }

// args names and orders the parameters for pgdb.
func (a appending) args() []pgdb.Arg {
	var ids, topics, keys, subjects, payloads, headers, classes []string
	var times []time.Time
	for i := range a.all {
		e := &a.all[i]
		ids, topics, keys, subjects = append(ids, string(e.ID)), append(topics, e.Type), append(keys, string(e.Session)), append(subjects, e.Subject)
		payloads, headers, classes, times = append(payloads, string(e.Payload)), append(headers, e.Headers(e.Trace)), append(classes, e.Retention), append(times, e.At)
	}
	return []pgdb.Arg{
		{Param: "ids text[]", Value: ids},
		{Param: "topics text[]", Value: topics},
		{Param: "keys text[]", Value: keys},
		{Param: "subjects text[]", Value: subjects},
		{Param: "payloads text[]", Value: payloads},
		{Param: "headers text[]", Value: headers},
		{Param: "classes text[]", Value: classes},
		{Param: "times timestamptz[]", Value: times},
	}
}

// AppendEvents locks the sessions, as mutations do, so that event positions become visible in order.
func (s *Store) AppendEvents(ctx context.Context, all []telemetry.SessionEvent) (rest []telemetry.SessionEvent, err error) {
	var sessions, turns []string
	for i := range all {
		sessions = append(sessions, string(all[i].Session))
	}
	slices.Sort(sessions)
	sessions = slices.Compact(sessions)
	err = s.db.Tx(ctx, "guest.append_events", func(t *pgdb.Tx) error {
		turns, rest = nil, nil
		if _, err := t.QueryRow(sqlTryTurns, []any{sessions}, &turns); err != nil || len(turns) == 0 {
			rest = all
			return err
		}
		var mine []telemetry.SessionEvent
		for _, e := range all {
			if slices.Contains(turns, string(e.Session)) {
				mine = append(mine, e)
			} else {
				rest = append(rest, e)
			}
		}
		return appendEvents(t, sqlAppendOnce, mine)
	})
	if err != nil {
		return nil, err
	}
	for _, session := range turns {
		s.waker.Wake(session, "")
	}
	return rest, nil
}
