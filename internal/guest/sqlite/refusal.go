package sqlite

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/guest"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/guest/telemetry"
)

const (
	sqlAddRefusal = `INSERT INTO bff_consumer_handoff_refusals AS r (handoff_id, reason, attempts, first_at, last_at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (handoff_id, reason) DO UPDATE SET attempts = r.attempts + excluded.attempts,
			first_at = min(r.first_at, excluded.first_at), last_at = max(r.last_at, excluded.last_at)
		RETURNING attempts = ?3`
	sqlRefusals = `SELECT handoff_id, reason, attempts, first_at, last_at FROM bff_consumer_handoff_refusals
		ORDER BY last_at DESC, handoff_id, reason LIMIT ?`
)

// AddRefusals implements handoffs.RefusalStore.
func (s *Store) AddRefusals(ctx context.Context, all []handoffs.NewRefusal) error {
	var appended []guest.ID
	err := s.db.Write(ctx, "add_refusals", func(c *sqlite.Conn) error {
		appended = nil
		for i := range all {
			r := &all[i]
			isNew, _, err := sqlitedb.QueryRow(c, sqlAddRefusal, func(r *sqlite.Stmt) bool { return r.ColumnBool(0) },
				string(r.Handoff), r.Reason, r.Attempts, r.First.UnixMicro(), r.Last.UnixMicro())
			if err != nil {
				return err
			}
			if !isNew {
				continue
			}
			e := telemetry.SessionEvent{Session: r.Session, Trace: r.Trace, Event: r.Event}
			e.At = s.time()
			if err := appendEvent(c, sqlAppendOnce, &e); err != nil {
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
	err = s.db.Read(ctx, "refusals", func(c *sqlite.Conn) error {
		all, err = sqlitedb.QueryAll(c, sqlRefusals, func(r *sqlite.Stmt) handoffs.Refusal {
			return handoffs.Refusal{
				Handoff: guest.ID(r.ColumnText(0)), Reason: r.ColumnText(1), Attempts: r.ColumnInt64(2),
				First: time.UnixMicro(r.ColumnInt64(3)).UTC(), Last: time.UnixMicro(r.ColumnInt64(4)).UTC(),
			}
		}, limit)
		return err
	})
	return all, err
}
