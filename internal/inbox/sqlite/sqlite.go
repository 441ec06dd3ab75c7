// Package sqlite stores a service's inbox in its SQLite file.
package sqlite

import (
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/inbox"
)

// Inbox holds the SQL for a service's tables NAME and NAME_quarantine.
type Inbox struct{ insert, digest, quarantine, list, drop, dropQuarantine string }

// New returns the SQL for a table; name is a constant.
func New(name string) *Inbox {
	return &Inbox{
		insert: `INSERT INTO ` + name + ` (source, event_id, subject, received_at, processed_at, digest) VALUES (?1, ?2, ?3, ?4, ?4, ?5)
			ON CONFLICT (source, event_id) DO NOTHING`,
		digest: `SELECT digest = ?3 FROM ` + name + ` WHERE source = ?1 AND event_id = ?2`,
		quarantine: `INSERT INTO ` + name + `_quarantine (source, event_id, subject, event_at, digest, body, reason, received_at)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING`,
		list: `SELECT source, event_id, subject, event_at, body, reason, received_at FROM ` + name + `_quarantine
			ORDER BY received_at DESC, source, event_id, digest LIMIT ?1`,
		drop: `DELETE FROM ` + name + ` WHERE (source, event_id) IN (
			SELECT source, event_id FROM ` + name + ` WHERE received_at < ?1 AND processed_at IS NOT NULL ORDER BY received_at LIMIT ?2)`,
		dropQuarantine: `DELETE FROM ` + name + `_quarantine WHERE (source, event_id, digest) IN (
			SELECT source, event_id, digest FROM ` + name + `_quarantine WHERE received_at < ?1 LIMIT ?2)`,
	}
}

// Receive calls apply in the caller's transaction if the event is new. apply returns false for an outdated event. An ID
// that was used for another event goes to quarantine.
func (b *Inbox) Receive(c *sqlite.Conn, e *inbox.Event, now time.Time, apply func() (changed bool, err error)) (inbox.Result, error) {
	digest := e.Digest()
	if err := sqlitedb.Exec(c, b.insert, e.Source, e.ID, e.Type, now.UnixMicro(), digest[:]); err != nil {
		return "", err
	}
	if c.Changes() == 1 {
		return inbox.ResultOf(apply())
	}
	same, _, err := sqlitedb.QueryRow(c, b.digest, func(s *sqlite.Stmt) bool { return s.ColumnBool(0) }, e.Source, e.ID, digest[:])
	if err != nil {
		return "", err
	}
	if same {
		return inbox.Duplicate, nil
	}
	return inbox.Quarantined, b.Quarantine(c, e, inbox.Reused, now)
}

// Quarantine stores an event that cannot be applied.
func (b *Inbox) Quarantine(c *sqlite.Conn, e *inbox.Event, reason string, now time.Time) error {
	digest := e.Digest()
	body := e.Truncated()
	if body == nil {
		body = []byte{}
	}
	return sqlitedb.Exec(c, b.quarantine, e.Source, e.ID, e.Type, e.Time.UnixMicro(), digest[:], body, reason, now.UnixMicro())
}

// Quarantined lists up to limit events in quarantine.
func (b *Inbox) Quarantined(c *sqlite.Conn, limit int) ([]inbox.Quarantine, error) {
	return sqlitedb.QueryAll(c, b.list, func(s *sqlite.Stmt) inbox.Quarantine {
		body := make([]byte, s.ColumnLen(4))
		s.ColumnBytes(4, body)
		return inbox.Quarantine{
			Event: inbox.Event{
				Source: s.ColumnText(0), ID: s.ColumnText(1), Type: s.ColumnText(2), Time: time.UnixMicro(s.ColumnInt64(3)).UTC(), Body: body,
			},
			Reason: s.ColumnText(5), Received: time.UnixMicro(s.ColumnInt64(6)).UTC(),
		}
	}, limit)
}

// Drop deletes up to limit rows: events older than Keep, then quarantine older than KeepQuarantine.
func (b *Inbox) Drop(c *sqlite.Conn, now time.Time, limit int) (n int, err error) {
	if err := sqlitedb.Exec(c, b.drop, now.Add(-inbox.Keep).UnixMicro(), limit); err != nil {
		return 0, err
	}
	n = c.Changes()
	if n == limit {
		return n, nil
	}
	err = sqlitedb.Exec(c, b.dropQuarantine, now.Add(-inbox.KeepQuarantine).UnixMicro(), limit-n)
	return n + c.Changes(), err
}
