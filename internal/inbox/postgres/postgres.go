// Package postgres stores a service's inbox in PostgreSQL.
package postgres

import (
	"context"
	"time"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/inbox"
)

// Inbox holds the SQL for a service's tables NAME and NAME_quarantine.
type Inbox struct {
	insert, digest, list, drop, dropQuarantine pgdb.Statement
	quarantine                                 pgdb.Named[quarantined]
}

// New returns the SQL for a table; name is a constant.
func New(name string) *Inbox {
	return &Inbox{
		// This waits for another transaction that receives the same event.
		insert: pgdb.Statement{Name: "inbox.insert", SQL: `
			INSERT INTO ` + name + ` (source, event_id, subject, received_at, processed_at, digest) VALUES ($1, $2, $3, $4, $4, $5)
			ON CONFLICT (source, event_id) DO NOTHING`},
		digest: pgdb.Statement{Name: "inbox.digest", SQL: `SELECT digest = $3 FROM ` + name + ` WHERE source = $1 AND event_id = $2`},
		quarantine: pgdb.NewNamed(pgdb.Statement{Name: "inbox.quarantine", SQL: `
			INSERT INTO ` + name + `_quarantine (source, event_id, subject, event_at, digest, body, reason, received_at)
			VALUES (@source, @id, @type, @time, @digest, @body, @reason, @received) ON CONFLICT DO NOTHING`}, quarantined.args),
		list: pgdb.Statement{Name: "inbox.quarantined", SQL: `
			SELECT source, event_id, subject, event_at, body, reason, received_at FROM ` + name + `_quarantine
			ORDER BY received_at DESC, source, event_id, digest LIMIT $1`},
		drop: pgdb.Statement{Name: "inbox.drop", SQL: `
			DELETE FROM ` + name + ` WHERE (source, event_id) IN (SELECT source, event_id FROM ` + name + `
				WHERE received_at < $1 AND processed_at IS NOT NULL ORDER BY received_at LIMIT $2 FOR UPDATE SKIP LOCKED)`},
		dropQuarantine: pgdb.Statement{Name: "inbox.drop_quarantine", SQL: `
			DELETE FROM ` + name + `_quarantine WHERE (source, event_id, digest) IN (SELECT source, event_id, digest FROM ` + name + `_quarantine
				WHERE received_at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED)`},
	}
}

// Receive calls apply in a transaction if the event is new. The caller must return its error to roll back. apply
// returns false for an outdated event.
func (b *Inbox) Receive(tx *pgdb.Tx, e *inbox.Event, now time.Time, apply func() (changed bool, err error)) (inbox.Result, error) {
	digest := e.Digest()
	n, err := tx.Exec(b.insert, e.Source, e.ID, e.Type, now, digest[:])
	if err != nil {
		return "", err
	}
	if n == 1 {
		return inbox.ResultOf(apply())
	}
	var same bool
	if _, err := tx.QueryRow(b.digest, []any{e.Source, e.ID, digest[:]}, &same); err != nil {
		return "", err
	}
	if same {
		return inbox.Duplicate, nil
	}
	return inbox.Quarantined, b.Quarantine(tx, e, inbox.Reused, now)
}

// Quarantine stores an event that cannot be applied.
func (b *Inbox) Quarantine(tx *pgdb.Tx, e *inbox.Event, reason string, now time.Time) error {
	_, err := tx.Exec(b.quarantine.Statement, b.quarantine.Args(quarantined{*e, reason, now})...)
	return err
}

// quarantined is an event with the other columns.
type quarantined struct {
	inbox.Event
	reason string
	now    time.Time
}

// args names the statement's parameters.
func (q quarantined) args() []pgdb.Arg {
	digest := q.Digest()
	body := q.Truncated()
	if body == nil {
		body = []byte{}
	}
	return []pgdb.Arg{
		{Param: "source", Value: q.Source},
		{Param: "id", Value: q.ID},
		{Param: "type", Value: q.Type},
		{Param: "time", Value: q.Time},
		{Param: "digest", Value: digest[:]},
		{Param: "body", Value: body},
		{Param: "reason", Value: q.reason},
		{Param: "received", Value: q.now},
	}
}

// Quarantined lists up to limit events in quarantine.
func (b *Inbox) Quarantined(ctx context.Context, db *pgdb.DB, limit int) (all []inbox.Quarantine, err error) {
	var q inbox.Quarantine
	err = db.ForEach(ctx, b.list, []any{limit}, func() { all = nil }, func() error {
		q.Time, q.Received = q.Time.UTC(), q.Received.UTC()
		all = append(all, q)
		q.Body = nil
		return nil
	}, &q.Source, &q.ID, &q.Type, &q.Time, &q.Body, &q.Reason, &q.Received)
	return all, err
}

// Drop deletes up to limit events older than Keep, and as many from quarantine older than KeepQuarantine.
func (b *Inbox) Drop(tx *pgdb.Tx, now time.Time, limit int) (int, error) {
	n, err := tx.Exec(b.drop, now.Add(-inbox.Keep), limit)
	if err != nil || int(n) == limit {
		return int(n), err
	}
	q, err := tx.Exec(b.dropQuarantine, now.Add(-inbox.KeepQuarantine), limit-int(n))
	return int(n + q), err
}
