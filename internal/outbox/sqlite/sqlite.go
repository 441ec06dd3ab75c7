// Package sqlite stores a service's outbox in its SQLite file. The table is in commit order, so a group commit's
// events share the last page: a commit writes whole pages.
package sqlite

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	"holdfast/internal/outbox"
)

// Outbox holds a table's statements; see New.
type Outbox struct {
	ddl, add, next, done, claim, release     string
	backlog, countDeadOf                     string
	byTopic                                  bool
	attempts, refuse                         string
	countDead, listDead, readDead, forgetOne string
}

// New ignores Table.Type: owner and stream are TEXT.
func New(t outbox.Table) *Outbox {
	id := t.Owner + `, ` + t.Stream + `, seq`
	byID := ` WHERE ` + t.Owner + ` = ?1 AND ` + t.Stream + ` = ?2 AND seq = ?3`
	event := id + `, topic, key, payload, created_at`
	columns := `
	` + t.Owner + ` TEXT NOT NULL,
	` + t.Stream + ` TEXT NOT NULL,
	seq INTEGER NOT NULL CHECK (seq > 0),
	topic TEXT NOT NULL,
	key TEXT NOT NULL,
	payload TEXT NOT NULL,
	created_at INTEGER NOT NULL, -- microseconds since 1970, like all times here
`
	leases, lease, leaseValues, ofLease, ofTopic := `	part INTEGER PRIMARY KEY,
`, `part`, `?4`, ``, ``
	ends := `
);
`
	if t.ByTopic {
		leases, lease, leaseValues, ofLease, ofTopic = `	topic TEXT NOT NULL,
	part INTEGER NOT NULL,
`, `topic, part`, `?5, ?4`, ` AND topic = ?3`, ` AND topic = ?4`
		ends = `,
	PRIMARY KEY (topic, part)
) WITHOUT ROWID;
CREATE INDEX ` + t.Name + `_topic_idx ON ` + t.Name + ` (topic);
`
	}
	return &Outbox{
		byTopic:     t.ByTopic,
		backlog:     `SELECT count(*), min(created_at) FROM (SELECT created_at FROM ` + t.Name + ` WHERE topic = ?1 LIMIT ` + strconv.Itoa(outbox.MaxBacklog) + `) e`,
		countDeadOf: `SELECT count(*) FROM (SELECT 1 FROM ` + t.Name + `_refused WHERE next_at IS NULL AND topic = ?1 LIMIT ` + strconv.Itoa(outbox.MaxDead) + `) e`,
		ddl: `CREATE TABLE ` + t.Name + ` (` + columns + `	part INTEGER NOT NULL, -- partition
	position INTEGER PRIMARY KEY -- ascending in commit order
);

-- Events that the sink has refused. An event and its successors wait until next_at.
-- An event whose next_at is NULL was set aside, and exists only here.
CREATE TABLE ` + t.Name + `_refused (` + columns + `	attempts INTEGER NOT NULL,
	reason TEXT NOT NULL,
	refused_at INTEGER NOT NULL,
	next_at INTEGER,
	PRIMARY KEY (` + id + `)
) WITHOUT ROWID;

-- A lease for each partition, and one for polling.
CREATE TABLE ` + t.Name + `_relay (
` + leases + `	holder TEXT NOT NULL,
	held_until INTEGER NOT NULL` + ends + `
-- Keeps the relay from reading events that were set aside.
CREATE INDEX ` + t.Name + `_refused_next_idx ON ` + t.Name + `_refused (` + id + `) WHERE next_at IS NOT NULL;
`,
		add: `INSERT INTO ` + t.Name + ` (` + event + `, part) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)`,
		next: `SELECT ` + event + `, position FROM ` + t.Name + ` e WHERE ?1 >> part & 1` + ofTopic + `
			AND NOT EXISTS (SELECT 1 FROM ` + t.Name + `_refused r INDEXED BY ` + t.Name + `_refused_next_idx
				WHERE r.` + t.Owner + ` = e.` + t.Owner + ` AND r.` + t.Stream + ` = e.` + t.Stream + ` AND r.seq <= e.seq AND r.next_at > ?2)
			ORDER BY position LIMIT ?3 + 0`, // with a bare parameter SQLite would replan for each value
		// Positions are reused after the table was empty.
		done: `DELETE FROM ` + t.Name + byID + ` AND position = ?4`,
		// If a lease ends later than a new lease would, it was granted before the clock was set back, and would last too
		// long.
		claim: `INSERT INTO ` + t.Name + `_relay AS r (` + lease + `, holder, held_until) VALUES (` + leaseValues + `, ?1, ?3)
			ON CONFLICT (` + lease + `) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
			WHERE r.holder = excluded.holder OR r.held_until <= ?2 OR r.held_until > excluded.held_until`,
		release:  `UPDATE ` + t.Name + `_relay SET held_until = 0 WHERE holder = ?1 AND part = ?2` + ofLease,
		attempts: `SELECT attempts FROM ` + t.Name + `_refused` + byID,
		refuse: `INSERT INTO ` + t.Name + `_refused (` + event + `, attempts, reason, refused_at, next_at)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
			ON CONFLICT (` + id + `) DO UPDATE SET attempts = excluded.attempts, reason = excluded.reason,
				refused_at = excluded.refused_at, next_at = excluded.next_at`,
		countDead: `SELECT count(*) FROM (SELECT 1 FROM ` + t.Name + `_refused WHERE next_at IS NULL LIMIT ` + strconv.Itoa(outbox.MaxDead) + `) e`,
		listDead: `SELECT ` + event + `, attempts, reason, refused_at FROM ` + t.Name + `_refused
			WHERE next_at IS NULL AND (` + id + `) > (?1, ?2, ?3) ORDER BY ` + id + ` LIMIT ?4`,
		readDead:  `SELECT ` + event + ` FROM ` + t.Name + `_refused` + byID + ` AND next_at IS NULL`,
		forgetOne: `DELETE FROM ` + t.Name + `_refused` + byID,
	}
}

// DDL is like postgres.Outbox.DDL.
func (o *Outbox) DDL() string { return o.ddl }

// Append adds an event in a write transaction, which the caller must roll back on an error. It fails if the payload
// is not JSON or the number exists.
func (o *Outbox) Append(c *sqlite.Conn, e outbox.Event) error {
	if !json.Valid(e.Payload) {
		return errcode.New(errcode.Internal, "an event's payload is not JSON")
	}
	return sqlitedb.Exec(c, o.add, e.Owner, e.Stream, e.Seq, e.Topic, e.Key, string(e.Payload), e.At.UnixMicro(),
		outbox.Partition(e.Owner, e.Stream))
}

// Open returns a relay's box. Leases use the clock now, because all processes are on this machine.
func (o *Outbox) Open(db *sqlitedb.DB, now clock.Clock) outbox.Box {
	return &box{sql: o, db: db, now: now}
}

// OpenTopic returns a box for the events with one topic, if Table.ByTopic is set.
func (o *Outbox) OpenTopic(db *sqlitedb.DB, now clock.Clock, topic string) outbox.Counted {
	return &topicBox{box{o, db, now, topic}}
}

// topicBox counts only its topic's events.
type topicBox struct{ box }

func (b *topicBox) Backlog(ctx context.Context) (n int, oldest time.Time, err error) {
	err = b.db.Read(ctx, "outbox.backlog", func(c *sqlite.Conn) error {
		return sqlitedb.ForEach(c, b.sql.backlog, func(s *sqlite.Stmt) error {
			if n = s.ColumnInt(0); n > 0 {
				oldest = time.UnixMicro(s.ColumnInt64(1)).UTC()
			}
			return nil
		}, b.topic)
	})
	return n, oldest, err
}

func (b *topicBox) CountDead(ctx context.Context) (n int, err error) {
	err = b.db.Read(ctx, "outbox.count_dead", func(c *sqlite.Conn) error {
		n, _, err = sqlitedb.QueryRow(c, b.sql.countDeadOf, func(s *sqlite.Stmt) int { return s.ColumnInt(0) }, b.topic)
		return err
	})
	return n, err
}

// box implements outbox.Box.
type box struct {
	sql   *Outbox
	db    *sqlitedb.DB
	now   clock.Clock
	topic string
}

// with adds the topic to the arguments.
func (b *box) with(args ...any) []any {
	if b.sql.byTopic {
		args = append(args, b.topic)
	}
	return args
}

func (b *box) Claim(ctx context.Context, holder string, lease time.Duration, parts outbox.Parts) (held outbox.Parts, err error) {
	err = b.db.Write(ctx, "outbox.claim", func(c *sqlite.Conn) error {
		held = 0
		now := b.now()
		for p := range parts.All() {
			if err := sqlitedb.Exec(c, b.sql.claim, b.with(holder, now.UnixMicro(), now.Add(lease).UnixMicro(), p)...); err != nil {
				return err
			}
			if c.Changes() == 1 {
				held |= outbox.PartsOf(p)
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return held, nil
}

func (b *box) Release(ctx context.Context, holder string, parts outbox.Parts) error {
	return b.db.Write(ctx, "outbox.release", func(c *sqlite.Conn) error { return b.letGo(c, holder, parts) })
}

// letGo gives up leases in a write.
func (b *box) letGo(c *sqlite.Conn, holder string, parts outbox.Parts) error {
	for p := range parts.All() {
		if err := sqlitedb.Exec(c, b.sql.release, b.with(holder, p)...); err != nil {
			return err
		}
	}
	return nil
}

func (b *box) Next(ctx context.Context, q outbox.Query) (events []outbox.Event, more outbox.Parts, err error) {
	err = b.db.Read(ctx, "outbox.next", func(c *sqlite.Conn) error {
		events, err = sqlitedb.QueryAll(c, b.sql.next, func(s *sqlite.Stmt) outbox.Event {
			e := scan(s)
			e.Position = s.ColumnInt64(7)
			return e
		}, b.with(int64(q.Parts), q.Now.UnixMicro(), q.Limit)...)
		return err
	})
	if len(events) == q.Limit {
		more = q.Parts
	}
	return events, more, err
}

func scan(s *sqlite.Stmt) outbox.Event {
	return outbox.Event{
		Owner: s.ColumnText(0), Stream: s.ColumnText(1), Seq: s.ColumnInt64(2), Topic: s.ColumnText(3),
		Key: s.ColumnText(4), Payload: json.RawMessage(s.ColumnText(5)), At: time.UnixMicro(s.ColumnInt64(6)).UTC(),
	}
}

func (b *box) Done(ctx context.Context, holder string, parts outbox.Parts, events []outbox.Event) error {
	return b.db.Write(ctx, "outbox.done", func(c *sqlite.Conn) error {
		for _, e := range events {
			if err := b.remove(c, e); err != nil {
				return err
			}
		}
		return b.letGo(c, holder, parts)
	})
}

// remove deletes a published event.
func (b *box) remove(c *sqlite.Conn, e outbox.Event) error {
	return sqlitedb.Exec(c, b.sql.done, e.Owner, e.Stream, e.Seq, e.Position)
}

func (b *box) Refuse(ctx context.Context, e outbox.Event, reason string, decide func(attempts int) outbox.Decision) error {
	return b.db.Write(ctx, "outbox.refuse", func(c *sqlite.Conn) error {
		before, _, err := sqlitedb.QueryRow(c, b.sql.attempts, func(s *sqlite.Stmt) int { return s.ColumnInt(0) }, e.Owner, e.Stream, e.Seq)
		if err != nil {
			return err
		}
		d := decide(before + 1)
		var next any
		if !d.SetAside {
			next = d.Next.UnixMicro()
		} else if err := b.remove(c, e); err != nil {
			return err
		}
		return sqlitedb.Exec(c, b.sql.refuse, e.Owner, e.Stream, e.Seq, e.Topic, e.Key, string(e.Payload), e.At.UnixMicro(),
			before+1, reason, d.At.UnixMicro(), next)
	})
}

func (b *box) CountDead(ctx context.Context) (n int, err error) {
	err = b.db.Read(ctx, "outbox.count_dead", func(c *sqlite.Conn) error {
		n, _, err = sqlitedb.QueryRow(c, b.sql.countDead, func(s *sqlite.Stmt) int { return s.ColumnInt(0) })
		return err
	})
	return n, err
}

func (b *box) ListDead(ctx context.Context, after outbox.ID, limit int) (dead []outbox.DeadEvent, err error) {
	err = b.db.Read(ctx, "outbox.list_dead", func(c *sqlite.Conn) error {
		dead, err = sqlitedb.QueryAll(c, b.sql.listDead, func(s *sqlite.Stmt) outbox.DeadEvent {
			return outbox.DeadEvent{
				Event: scan(s), Attempts: s.ColumnInt(7), Reason: s.ColumnText(8), DiedAt: time.UnixMicro(s.ColumnInt64(9)).UTC(),
			}
		}, after.Owner, after.Stream, after.Seq, limit)
		return err
	})
	return dead, err
}

func (b *box) RetryDead(ctx context.Context, id outbox.ID) (bool, error) {
	return b.dead(ctx, "outbox.retry_dead", id, b.Append)
}

func (b *box) DropDead(ctx context.Context, id outbox.ID) (bool, error) {
	return b.dead(ctx, "outbox.drop_dead", id, func(*sqlite.Conn, outbox.Event) error { return nil })
}

func (b *box) Append(c *sqlite.Conn, e outbox.Event) error { return b.sql.Append(c, e) }

// dead takes a dead letter out of its table and calls to in the same transaction.
func (b *box) dead(ctx context.Context, name string, id outbox.ID, to func(*sqlite.Conn, outbox.Event) error) (found bool, err error) {
	err = b.db.Write(ctx, name, func(c *sqlite.Conn) error {
		var e outbox.Event
		if e, found, err = sqlitedb.QueryRow(c, b.sql.readDead, scan, id.Owner, id.Stream, id.Seq); err != nil || !found {
			return err
		}
		if err := sqlitedb.Exec(c, b.sql.forgetOne, id.Owner, id.Stream, id.Seq); err != nil {
			return err
		}
		return to(c, e)
	})
	return found && err == nil, err
}
