// Package sqlite keeps a room's outbox in the room's SQLite file.
package sqlite

import (
	"context"
	"encoding/json"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/fault"
	"holdfast/internal/outbox"
)

// Outbox is the SQL of a room's table.
type Outbox struct {
	ddl, add, next, done, claim, release string
}

// New writes the SQL of a table. Its Type is not used: owner and stream are TEXT.
func New(t outbox.Table) *Outbox {
	key := t.Owner + `, ` + t.Stream + `, seq`
	return &Outbox{
		ddl: `CREATE TABLE ` + t.Name + ` (
	` + t.Owner + ` TEXT NOT NULL,
	` + t.Stream + ` TEXT NOT NULL,
	seq INTEGER NOT NULL CHECK (seq > 0),
	topic TEXT NOT NULL,
	key TEXT NOT NULL,
	payload TEXT NOT NULL,
	created_at INTEGER NOT NULL, -- microseconds since 1970
	PRIMARY KEY (` + key + `)
) WITHOUT ROWID;

CREATE TABLE ` + t.Name + `_relay (
	one INTEGER PRIMARY KEY CHECK (one = 1),
	holder TEXT NOT NULL,
	held_until INTEGER NOT NULL -- microseconds since 1970
);
`,
		add:  `INSERT INTO ` + t.Name + ` (` + key + `, topic, key, payload, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)`,
		next: `SELECT ` + key + `, topic, key, payload, created_at FROM ` + t.Name + ` ORDER BY ` + key + ` LIMIT ?1`,
		done: `DELETE FROM ` + t.Name + ` WHERE ` + t.Owner + ` = ?1 AND ` + t.Stream + ` = ?2 AND seq = ?3`,
		// A lease that ends later than one that is given now is of a clock that
		// has been turned back, and would last until the hour comes again.
		claim: `INSERT INTO ` + t.Name + `_relay AS r (one, holder, held_until) VALUES (1, ?1, ?3)
			ON CONFLICT (one) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
			WHERE r.holder = excluded.holder OR r.held_until <= ?2 OR r.held_until > excluded.held_until`,
		release: `UPDATE ` + t.Name + `_relay SET held_until = 0 WHERE holder = ?1`,
	}
}

// DDL is the text that makes the tables. A migration of the room has a copy of
// it, because a migration never changes.
func (o *Outbox) DDL() string { return o.ddl }

// Append adds an event in the transaction of a step of the writer. Its payload
// must be JSON, and its number new: an error fails the step.
func (o *Outbox) Append(c *sqlite.Conn, e outbox.Event) error {
	if !json.Valid(e.Payload) {
		return fault.New(fault.Internal, "the payload of an event is not JSON")
	}
	return sqlitedb.Exec(c, o.add, e.Owner, e.Stream, e.Seq, e.Topic, e.Key, string(e.Payload), e.At.UnixMicro())
}

// Open is the table in a file, as a relay needs it.
func (o *Outbox) Open(db *sqlitedb.DB, now clock.Clock) outbox.Box { return &box{o, db, now} }

// box implements outbox.Box.
type box struct {
	sql *Outbox
	db  *sqlitedb.DB
	now clock.Clock
}

func (b *box) Claim(ctx context.Context, holder string, lease time.Duration) (mine bool, err error) {
	err = b.db.Write(ctx, "outbox.claim", func(c *sqlite.Conn) error {
		now := b.now()
		err := sqlitedb.Exec(c, b.sql.claim, holder, now.UnixMicro(), now.Add(lease).UnixMicro())
		mine = err == nil && c.Changes() == 1
		return err
	})
	return mine && err == nil, err
}

func (b *box) Release(ctx context.Context, holder string) error {
	return b.db.Write(ctx, "outbox.release", func(c *sqlite.Conn) error {
		return sqlitedb.Exec(c, b.sql.release, holder)
	})
}

func (b *box) Next(ctx context.Context, limit int) (events []outbox.Event, err error) {
	err = b.db.Read(ctx, "outbox.next", func(c *sqlite.Conn) (err error) {
		events, err = sqlitedb.All(c, b.sql.next, func(s *sqlite.Stmt) outbox.Event {
			return outbox.Event{
				Owner: s.ColumnText(0), Stream: s.ColumnText(1), Seq: s.ColumnInt64(2), Topic: s.ColumnText(3),
				Key: s.ColumnText(4), Payload: json.RawMessage(s.ColumnText(5)), At: time.UnixMicro(s.ColumnInt64(6)).UTC(),
			}
		}, limit)
		return err
	})
	return events, err
}

func (b *box) Done(ctx context.Context, events []outbox.Event) error {
	return b.db.Write(ctx, "outbox.done", func(c *sqlite.Conn) error {
		for _, e := range events {
			if err := sqlitedb.Exec(c, b.sql.done, e.Owner, e.Stream, e.Seq); err != nil {
				return err
			}
		}
		return nil
	})
}
