package postgres

import (
	"context"
	"strings"
	"time"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/retention"
	"holdfast/internal/inbox"
)

// old deletes and counts a job's old rows.
type old struct{ drop, count pgdb.Statement }

// newOld selects a job's rows. Parameter 1 in where is the time.
func newOld(name, table, where, order string) old {
	table = "bff_consumer." + table
	return old{
		drop: pgdb.Statement{Name: "guest.drop_" + name, SQL: `
			DELETE FROM ` + table + ` WHERE ctid = ANY (ARRAY(
				SELECT ctid FROM ` + table + ` WHERE ` + where + ` ORDER BY ` + order + ` LIMIT $2 FOR UPDATE SKIP LOCKED))`},
		count: pgdb.Statement{Name: "guest.count_" + name, SQL: `SELECT count(*) FROM (SELECT FROM ` + table + ` WHERE ` + where + ` LIMIT $2) r`},
	}
}

var olds = map[retention.Job]old{
	retention.JobAnswers:     newOld("answers", "idempotency_keys", "expires_at < $1", "expires_at"),
	retention.JobRemoved:     newOld("removed", "wishlist_anonymous", "removed_at < $1", "removed_at"),
	retention.JobUsers:       newOld("user_sessions", "user_sessions", "seen_at < $1", "seen_at"),
	retention.JobHandoffs:    newOld("handoffs", "handoff_replay_log", "minted_at < $1", "minted_at"),
	retention.JobRefusals:    newOld("refusals", "handoff_refusals", "last_at < $1", "last_at"),
	retention.JobBotScores:   newOld("bot_scores", "bot_score_log", "evaluated_at < $1", "evaluated_at"),
	retention.JobEvents:      newOld("events", "outbox", "retention_class = 'operational' AND published_at < $1", "published_at"),
	retention.JobAuditEvents: newOld("audit_events", "outbox", "retention_class = 'audit' AND published_at < $1", "published_at"),
}

var (
	sqlCountReceived = pgdb.Statement{Name: "guest.count_received", SQL: `
		SELECT count(*) FROM (SELECT FROM bff_consumer.inbox WHERE received_at < $1 AND processed_at IS NOT NULL
			UNION ALL SELECT FROM bff_consumer.inbox_quarantine WHERE received_at < $3 LIMIT $2) r`}
	sqlCountSilent = pgdb.Statement{Name: "guest.count_silent", SQL: `
		SELECT count(*) FROM (SELECT FROM bff_consumer.session_seen JOIN bff_consumer.wishlist_anonymous USING (guest_session_id) WHERE seen_on < $1
			UNION ALL SELECT FROM bff_consumer.session_seen WHERE seen_on < $1 LIMIT $2) r`}
	sqlDropSilent = pgdb.Statement{Name: "guest.drop_silent", SQL: `SELECT rows, sessions FROM bff_consumer.drop_silent(in_before => $1, in_limit => $2)`}
	// sqlSeen skips locked rows: another process is marking them already, or the session is being deleted.
	sqlSeen = pgdb.Statement{Name: "guest.mark_seen", SQL: `
		UPDATE bff_consumer.session_seen SET seen_on = $2 WHERE guest_session_id = ANY (ARRAY(
			SELECT guest_session_id FROM bff_consumer.session_seen WHERE guest_session_id = ANY ($1) AND seen_on < $2 FOR UPDATE SKIP LOCKED))`}
	sqlForget = pgdb.Statement{Name: "guest.forget_session", SQL: `DELETE FROM bff_consumer.session_seen WHERE guest_session_id = $1`}
)

const silentSessions = 500

// day returns the UTC day, since session_seen stores days.
func day(at time.Time) time.Time { return at.UTC().Truncate(24 * time.Hour) }

// sqlLead makes the transaction a job's leader.
var sqlLead = pgdb.Statement{Name: "guest.lead_job", SQL: `SELECT pg_try_advisory_xact_lock(hashtextextended($1, 4715333))`}

// sqlByIndex makes a transaction read the oldest rows from an index. Without statistics, e.g. after a restore,
// PostgreSQL expects few rows and would sort all old rows in each step.
var sqlByIndex = pgdb.Statement{Name: "guest.drop_by_index", SQL: `SET LOCAL enable_sort TO off`}

// Drop skips rows locked by guests.
func (s *Store) Drop(ctx context.Context, job retention.Job, before time.Time, limit int) (n int, err error) {
	if limit < 1 {
		return 0, errcode.New(errcode.Invalid, "limit: expected at least 1")
	}
	err = s.db.Tx(ctx, "guest.drop", func(t *pgdb.Tx) error {
		n = 0
		leads := false
		if _, err := t.QueryRow(sqlLead, []any{string(job)}, &leads); err != nil {
			return err
		}
		if !leads {
			return retention.ErrJobRuns
		}
		o, simple := olds[job]
		switch {
		case simple:
			if err := t.Queue(sqlByIndex); err != nil {
				return err
			}
			rows, err := t.Exec(o.drop, before, limit)
			n = int(rows)
			return err
		case job == retention.JobReceived:
			n, err = received.Drop(t, before.Add(inbox.Keep), limit)
		case job == retention.JobSilent:
			n, err = dropSilent(t, day(before), limit)
		default:
			err = retention.ErrNoJob
		}
		return err
	})
	return n, err
}

// dropSilent deletes wishlists of silent sessions, in small groups, up to limit rows.
func dropSilent(t *pgdb.Tx, before time.Time, limit int) (n int, err error) {
	for {
		var rows, sessions int
		left := limit - n
		if _, err := t.QueryRow(sqlDropSilent, []any{before, left}, &rows, &sessions); err != nil {
			return n, err
		}
		n += rows
		if rows == 0 || n == limit || sessions < min(left, silentSessions) {
			return n, nil
		}
	}
}

// CountOld implements retention.Store.
func (s *Store) CountOld(ctx context.Context, job retention.Job, before time.Time) (n int, err error) {
	var statement pgdb.Statement
	args := []any{before, retention.MaxCount}
	switch o, simple := olds[job]; {
	case simple:
		statement = o.count
	case job == retention.JobReceived:
		statement, args = sqlCountReceived, append(args, before.Add(inbox.Keep-inbox.KeepQuarantine))
	case job == retention.JobSilent:
		statement, args[0] = sqlCountSilent, day(before)
	default:
		return 0, retention.ErrNoJob
	}
	_, err = s.db.QueryRow(ctx, statement, args, &n)
	return n, err
}

// MarkSeen implements guest.Store.
func (s *Store) MarkSeen(ctx context.Context, sessions []guest.ID, at time.Time) error {
	ids := make([]string, len(sessions))
	var users []string
	for i, id := range sessions {
		ids[i] = string(id)
		if strings.HasPrefix(ids[i], guest.UserSessionPrefix) {
			users = append(users, ids[i])
		}
	}
	if _, err := s.db.Exec(ctx, sqlSeen, ids, day(at)); err != nil {
		return err
	}
	return s.markUsersSeen(ctx, users, at)
}

var (
	sqlEraseHandoff = pgdb.Statement{Name: "guest.erase_handoffs_of_session", SQL: `
		DELETE FROM bff_consumer.handoff_replay_log WHERE guest_session_id = $1`}
	sqlEraseBotScores = pgdb.Statement{Name: "guest.erase_bot_scores", SQL: `
		DELETE FROM bff_consumer.bot_score_log WHERE guest_session_id = $1`}
	sqlEventsOf = pgdb.Statement{Name: "guest.events_of_session", SQL: `
		SELECT coalesce(max(id), ''), coalesce(array_agg(id) FILTER (WHERE ordering_key = $1), '{}')
		FROM (SELECT id, ordering_key FROM bff_consumer.outbox WHERE id > $2 ORDER BY id LIMIT $3) page`}
	sqlEraseEvents = pgdb.Statement{Name: "guest.erase_events", SQL: `
		DELETE FROM bff_consumer.outbox WHERE id = ANY ($1) AND retention_class = 'operational' AND (published_at IS NOT NULL OR dead_at IS NOT NULL)`}
	sqlLockSession = pgdb.Statement{Name: "guest.lock_session", SQL: `
		SELECT pg_advisory_xact_lock(hashtextextended($1, 4715332))`}
)

var remains = []string{
	"dead rows in the tables of schema bff_consumer, until VACUUM: autovacuum runs it, or run VACUUM now",
	"the WAL, its archives and replicas, until they are recycled",
	"backups made with PostgreSQL's tools",
}

// Erase implements guest.Store.
func (s *Store) Erase(ctx context.Context, session guest.ID) (e guest.Erased, answers []string, err error) {
	err = s.db.Tx(ctx, "guest.erase", func(t *pgdb.Tx) error {
		e, answers = guest.Erased{}, nil
		id := []any{string(session)}
		if _, err := t.Exec(sqlLockSession, id...); err != nil {
			return err
		}
		for _, d := range []struct {
			statement pgdb.Statement
			rows      *int
		}{
			{sqlClearWishes, &e.Wishes},
			{sqlEraseHandoff, &e.Handoffs},
			{sqlEraseBotScores, &e.BotScores},
			{sqlForget, new(int)},
			{sqlEraseUserSessions, new(int)},
		} {
			n, err := t.Exec(d.statement, id...)
			if err != nil {
				return err
			}
			*d.rows = int(n)
		}
		var key string
		if err := t.ForEach(sqlClearAnswers, id, func() error { answers = append(answers, key); return nil }, &key); err != nil {
			return err
		}
		e.Answers = len(answers)
		return nil
	})
	if err == nil {
		e.Events, e.Kept, err = s.eraseEvents(ctx, session)
	}
	e.Remains = remains
	return e, answers, err
}

// eraseEvents spares audited and waiting events. It pages through all events since the session began, because an
// index on sessions would make each event more expensive.
func (s *Store) eraseEvents(ctx context.Context, session guest.ID) (erased, kept int, err error) {
	for after := guest.FirstEvent(session); after != ""; {
		var ids []string
		if _, err := s.db.QueryRow(ctx, sqlEventsOf, []any{string(session), after, guest.EventPage}, &after, &ids); err != nil {
			return erased, kept, err
		}
		if len(ids) == 0 {
			continue
		}
		n, err := s.db.Exec(ctx, sqlEraseEvents, ids)
		if err != nil {
			return erased, kept, err
		}
		erased, kept = erased+int(n), kept+len(ids)-int(n)
	}
	return erased, kept, nil
}
