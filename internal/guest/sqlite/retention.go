package sqlite

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/retention"
	"holdfast/internal/inbox"
)

// old selects a job's rows: parameter 1 is the time, 2 the limit.
type old struct{ table, key, where, order string }

var olds = map[retention.Job]old{
	retention.JobAnswers:     {"idempotency_keys", "rowid", "expires_at < ?1", "expires_at"},
	retention.JobRemoved:     {"wishlist_anonymous", "id", "removed_at < ?1", "removed_at"},
	retention.JobUsers:       {"user_sessions", "session_id", "seen_at < ?1", "seen_at"},
	retention.JobHandoffs:    {"handoff_replay_log", "id", "minted_at < ?1", "minted_at"},
	retention.JobRefusals:    {"handoff_refusals", "(handoff_id, reason)", "last_at < ?1", "last_at"},
	retention.JobBotScores:   {"bot_score_log", "id", "evaluated_at < ?1", "evaluated_at"},
	retention.JobEvents:      {"outbox", "position", "retention_class = 'operational' AND published_at < ?1", "published_at"},
	retention.JobAuditEvents: {"outbox", "position", "retention_class = 'audit' AND published_at < ?1", "published_at"},
}

// drop returns the statement that deletes the oldest rows.
func (o old) drop() string {
	return `DELETE FROM bff_consumer_` + o.table + ` WHERE ` + o.key + ` IN (SELECT ` + strings.Trim(o.key, "()") + ` FROM bff_consumer_` + o.table +
		` WHERE ` + o.where + ` ORDER BY ` + o.order + ` LIMIT ?2)`
}

// count returns the statement that counts.
func (o old) count() string {
	return `SELECT count(*) FROM (SELECT 1 FROM bff_consumer_` + o.table + ` WHERE ` + o.where + ` LIMIT ?2)`
}

const (
	sqlCountReceived = `SELECT count(*) FROM (SELECT 1 FROM bff_consumer_inbox WHERE received_at < ?1 AND processed_at IS NOT NULL
		UNION ALL SELECT 1 FROM bff_consumer_inbox_quarantine WHERE received_at < ?3 LIMIT ?2)`
	sqlCountSilent = `SELECT min(?2, (SELECT count(*) FROM bff_consumer_session_seen s JOIN bff_consumer_wishlist_anonymous w USING (guest_session_id) WHERE s.seen_on < ?1)
		+ (SELECT count(*) FROM bff_consumer_session_seen WHERE seen_on < ?1))`
	sqlSilent     = `SELECT guest_session_id FROM bff_consumer_session_seen WHERE seen_on < ? ORDER BY seen_on LIMIT ?`
	sqlDropSilent = `DELETE FROM bff_consumer_wishlist_anonymous WHERE id IN
		(SELECT id FROM bff_consumer_wishlist_anonymous WHERE guest_session_id = ? LIMIT ?)`
	sqlForget  = `DELETE FROM bff_consumer_session_seen WHERE guest_session_id = ?`
	sqlAddSeen = `INSERT INTO bff_consumer_session_seen (guest_session_id, seen_on) VALUES (?, ?)
		ON CONFLICT (guest_session_id) DO UPDATE SET seen_on = max(seen_on, excluded.seen_on)`
	sqlSeen = `UPDATE bff_consumer_session_seen SET seen_on = ?2 WHERE guest_session_id = ?1 AND seen_on < ?2`
)

// day returns the UTC day as text, since session_seen stores days.
func day(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// Drop implements retention.Store.
func (s *Store) Drop(ctx context.Context, job retention.Job, before time.Time, limit int) (n int, err error) {
	if limit < 1 {
		return 0, errcode.New(errcode.Invalid, "limit: expected at least 1")
	}
	o, simple := olds[job]
	err = s.db.Write(ctx, "drop_"+string(job), func(c *sqlite.Conn) (err error) {
		switch {
		case simple:
			err = sqlitedb.Exec(c, o.drop(), before.UnixMicro(), limit)
			n = c.Changes()
		case job == retention.JobReceived:
			n, err = received.Drop(c, before.Add(inbox.Keep), limit)
		case job == retention.JobSilent:
			n, err = dropSilent(c, day(before), limit)
		default:
			err = retention.ErrNoJob
		}
		return err
	})
	return n, err
}

// dropSilent deletes wishlists of silent sessions, up to limit rows.
func dropSilent(c *sqlite.Conn, before string, limit int) (n int, err error) {
	sessions, err := sqlitedb.QueryAll(c, sqlSilent, func(r *sqlite.Stmt) string { return r.ColumnText(0) }, before, limit)
	for _, session := range sessions {
		if err == nil {
			err = sqlitedb.Exec(c, sqlDropSilent, session, limit-n)
		}
		n += c.Changes()
		if err != nil || n == limit {
			return n, err
		}
		err = sqlitedb.Exec(c, sqlForget, session)
		if n++; n == limit {
			return n, err
		}
	}
	return n, err
}

// CountOld implements retention.Store.
func (s *Store) CountOld(ctx context.Context, job retention.Job, before time.Time) (n int, err error) {
	sql, args := "", []any{before.UnixMicro(), retention.MaxCount}
	switch o, simple := olds[job]; {
	case simple:
		sql = o.count()
	case job == retention.JobReceived:
		sql, args = sqlCountReceived, append(args, before.Add(inbox.Keep-inbox.KeepQuarantine).UnixMicro())
	case job == retention.JobSilent:
		sql, args = sqlCountSilent, []any{day(before), retention.MaxCount}
	default:
		return 0, retention.ErrNoJob
	}
	err = s.db.Read(ctx, "count_old", func(c *sqlite.Conn) (err error) {
		n, _, err = sqlitedb.QueryRow(c, sql, func(r *sqlite.Stmt) int { return r.ColumnInt(0) }, args...)
		return err
	})
	return n, err
}

// MarkSeen implements guest.Store.
func (s *Store) MarkSeen(ctx context.Context, sessions []guest.ID, at time.Time) error {
	return s.db.Write(ctx, "mark_seen", func(c *sqlite.Conn) error {
		for _, session := range sessions {
			if err := sqlitedb.Exec(c, sqlSeen, string(session), day(at)); err != nil {
				return err
			}
			if !strings.HasPrefix(string(session), guest.UserSessionPrefix) {
				continue
			}
			if err := sqlitedb.Exec(c, sqlUserSeen, string(session), at.UnixMicro()); err != nil {
				return err
			}
		}
		return nil
	})
}

const (
	sqlEraseHandoff   = `DELETE FROM bff_consumer_handoff_replay_log WHERE guest_session_id = ?`
	sqlEraseBotScores = `DELETE FROM bff_consumer_bot_score_log WHERE guest_session_id = ?`

	sqlEventsOf = `SELECT coalesce(max(id), ''), json_group_array(id) FILTER (WHERE ordering_key = ?3)
		FROM (SELECT id, ordering_key FROM bff_consumer_outbox WHERE id > ?1 ORDER BY id LIMIT ?2)`
	sqlEraseEvent = `DELETE FROM bff_consumer_outbox WHERE id = ? AND retention_class = 'operational' AND (published_at IS NOT NULL OR dead_at IS NOT NULL)`
)

// Erase implements guest.Store.
func (s *Store) Erase(ctx context.Context, session guest.ID) (e guest.Erased, answers []string, err error) {
	err = s.db.Write(ctx, "erase", func(c *sqlite.Conn) (err error) {
		id := string(session)
		e = guest.Erased{}
		for _, d := range []struct {
			sql  string
			rows *int
		}{
			{sqlClearWishes, &e.Wishes},
			{sqlEraseHandoff, &e.Handoffs},
			{sqlEraseBotScores, &e.BotScores},
			{sqlForget, new(int)},
			{sqlEraseUserSessions, new(int)},
		} {
			if err := sqlitedb.Exec(c, d.sql, id); err != nil {
				return err
			}
			*d.rows = c.Changes()
		}
		if answers, err = sqlitedb.QueryAll(c, sqlClearAnswers, func(r *sqlite.Stmt) string { return r.ColumnText(0) }, id); err != nil {
			return err
		}
		e.Answers = len(answers)
		return eraseHot(c, session, answers, s.time())
	})
	if err == nil {
		e.Events, e.Kept, err = s.eraseEvents(ctx, session)
	}
	if err == nil {
		e.Remains, err = []string{}, s.db.Purge(ctx)
	}
	return e, answers, err
}

// eraseEvents spares audited and waiting events. It pages through all events since the session began.
func (s *Store) eraseEvents(ctx context.Context, session guest.ID) (erased, kept int, err error) {
	for after := guest.FirstEvent(session); after != ""; {
		var ids []string
		n := 0
		err := s.db.Read(ctx, "events_of_session", func(c *sqlite.Conn) error {
			all, _, err := sqlitedb.QueryRow(c, sqlEventsOf, func(r *sqlite.Stmt) string {
				after = r.ColumnText(0)
				return r.ColumnText(1)
			}, after, guest.EventPage, string(session))
			if err != nil {
				return err
			}
			return json.Unmarshal([]byte(all), &ids)
		})
		if err == nil && len(ids) > 0 {
			err = s.db.Write(ctx, "erase_events", func(c *sqlite.Conn) error {
				n = 0
				for _, id := range ids {
					if err := sqlitedb.Exec(c, sqlEraseEvent, id); err != nil {
						return err
					}
					n += c.Changes()
				}
				return nil
			})
		}
		if err != nil {
			return erased, kept, err
		}
		erased, kept = erased+n, kept+len(ids)-n
	}
	return erased, kept, nil
}
