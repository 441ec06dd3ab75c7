package postgres

import (
	"context"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/guest"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/guest/telemetry"
)

var (
	sqlAddRefusal = pgdb.Statement{Name: "guest.add_refusal", SQL: `
		INSERT INTO bff_consumer.handoff_refusals AS r (handoff_id, reason, attempts, first_at, last_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (handoff_id, reason) DO UPDATE SET attempts = r.attempts + excluded.attempts,
			first_at = least(r.first_at, excluded.first_at), last_at = greatest(r.last_at, excluded.last_at)
		RETURNING attempts = $3`}
	sqlRefusals = pgdb.Statement{Name: "guest.refusals", SQL: `
		SELECT handoff_id, reason, attempts, first_at, last_at FROM bff_consumer.handoff_refusals
		ORDER BY last_at DESC, handoff_id, reason LIMIT $1`}
)

// AddRefusals locks the sessions of new events, so that their positions become visible in order.
func (s *Store) AddRefusals(ctx context.Context, all []handoffs.NewRefusal) error {
	var appended []guest.ID
	err := s.db.Tx(ctx, "guest.add_refusals", func(t *pgdb.Tx) error {
		appended = nil
		for i := range all {
			r := &all[i]
			isNew := false
			if _, err := t.QueryRow(sqlAddRefusal, []any{string(r.Handoff), r.Reason, r.Attempts, r.First, r.Last}, &isNew); err != nil {
				return err
			}
			if !isNew {
				continue
			}
			at, err := takeTurn(t, r.Session)
			if err != nil {
				return err
			}
			e := r.Event
			e.At = at
			if err := appendEvents(t, sqlAppendOnce, []telemetry.SessionEvent{{Session: r.Session, Trace: r.Trace, Event: e}}); err != nil {
				return err
			}
			appended = append(appended, r.Session)
		}
		return nil
	})
	if err == nil {
		for _, session := range appended {
			s.waker.Wake(string(session), "")
		}
	}
	return err
}

// Refusals implements handoffs.RefusalStore.
func (s *Store) Refusals(ctx context.Context, limit int) (all []handoffs.Refusal, err error) {
	var row handoffs.Refusal
	var id string
	err = s.db.ForEach(ctx, sqlRefusals, []any{limit}, func() { all = nil }, func() error {
		row.Handoff, row.First, row.Last = guest.ID(id), row.First.UTC(), row.Last.UTC()
		all = append(all, row)
		return nil
	}, &id, &row.Reason, &row.Attempts, &row.First, &row.Last)
	return all, err
}
