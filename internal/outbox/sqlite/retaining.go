package sqlite

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/outbox"
)

// RetainingDDL creates a retaining table and its lease table.
func RetainingDDL(name string) string {
	digit := `(unicode(substr(ordering_key, -1)) & 15) + 9 * (unicode(substr(ordering_key, -1)) >> 6)`
	return `CREATE TABLE ` + name + ` (
	position INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of commits
	id TEXT NOT NULL UNIQUE,
	topic TEXT NOT NULL,
	ordering_key TEXT NOT NULL CHECK (ordering_key <> ''),
	subject TEXT NOT NULL,
	payload TEXT NOT NULL,
	headers TEXT NOT NULL,
	retention_class TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	published_at INTEGER,
	attempts INTEGER NOT NULL DEFAULT 0,
	last_error TEXT,
	next_attempt_at INTEGER,
	dead_at INTEGER,
	part INTEGER NOT NULL GENERATED ALWAYS AS ((` + digit + `) % ` + strconv.Itoa(outbox.Partitions) + `) VIRTUAL
) STRICT;
CREATE INDEX ` + name + `_unpublished ON ` + name + ` (position) WHERE published_at IS NULL AND dead_at IS NULL;
CREATE INDEX ` + name + `_delayed ON ` + name + ` (ordering_key, position)
	WHERE published_at IS NULL AND dead_at IS NULL AND next_attempt_at IS NOT NULL;
CREATE INDEX ` + name + `_dead ON ` + name + ` (position) WHERE dead_at IS NOT NULL;
CREATE INDEX ` + name + `_published ON ` + name + ` (retention_class, published_at) WHERE published_at IS NOT NULL;
CREATE TABLE ` + name + `_relay (part INTEGER PRIMARY KEY, holder TEXT NOT NULL, held_until INTEGER NOT NULL) STRICT;
`
}

type retaining struct {
	box

	next, done, attempts, delay, die               string
	countDead, listDead, retryDead, dropDead, find string
	backlog, waiting, findWaiting, drop            string
	published, republish                           string
}

// OpenRetaining returns a relay's box for a retaining table.
func OpenRetaining(db *sqlitedb.DB, name string, now clock.Clock) outbox.Retaining {
	const (
		waits  = ` published_at IS NULL AND dead_at IS NULL`
		event  = ` e.ordering_key, e.position, e.topic, e.subject, e.payload, e.created_at, e.id, e.headers, e.retention_class`
		failed = event + `, e.attempts, coalesce(e.last_error, '')`
		one    = ` WHERE position = ?1 AND` + waits
		dead   = ` WHERE position = ?1 AND dead_at IS NOT NULL AND published_at IS NULL`
	)
	return &retaining{
		box: box{sql: New(outbox.Table{Name: name, Owner: "ordering_key", Stream: "ordering_key"}), db: db, now: now},
		// With a bare parameter as limit, SQLite would replan for each value.
		next: `SELECT` + event + ` FROM ` + name + ` e WHERE` + waits + ` AND ?1 >> part & 1
			AND NOT EXISTS (SELECT 1 FROM ` + name + ` r WHERE r.ordering_key = e.ordering_key AND r.position <= e.position
				AND r.published_at IS NULL AND r.dead_at IS NULL AND r.next_attempt_at IS NOT NULL AND r.next_attempt_at > ?2)
			ORDER BY position LIMIT ?3 + 0`,
		done:      `UPDATE ` + name + ` SET published_at = ?2, next_attempt_at = NULL` + one,
		attempts:  `SELECT attempts FROM ` + name + one,
		delay:     `UPDATE ` + name + ` SET attempts = ?2, last_error = ?3, next_attempt_at = ?4` + one,
		die:       `UPDATE ` + name + ` SET attempts = ?2, last_error = ?3, next_attempt_at = NULL, dead_at = ?4` + one,
		countDead: `SELECT count(*) FROM (SELECT 1 FROM ` + name + ` WHERE dead_at IS NOT NULL LIMIT ` + strconv.Itoa(outbox.MaxDead) + `) e`,
		listDead: `SELECT` + failed + `, e.dead_at FROM ` + name + ` e WHERE dead_at IS NOT NULL AND position > ?1
			ORDER BY position LIMIT ?2`,
		retryDead:   `UPDATE ` + name + ` SET attempts = 0, next_attempt_at = NULL, dead_at = NULL` + dead,
		dropDead:    `DELETE FROM ` + name + dead,
		find:        `SELECT ordering_key, position FROM ` + name + ` WHERE id = ?1 AND dead_at IS NOT NULL`,
		backlog:     `SELECT count(*), min(created_at) FROM (SELECT created_at FROM ` + name + ` WHERE` + waits + ` LIMIT ` + strconv.Itoa(outbox.MaxBacklog) + `)`,
		waiting:     `SELECT` + failed + `, e.next_attempt_at FROM ` + name + ` e WHERE` + waits + ` AND position > ?1 ORDER BY position LIMIT ?2`,
		findWaiting: `SELECT position FROM ` + name + ` WHERE id = ?1 AND` + waits,
		published:   `SELECT` + event + `, e.published_at FROM ` + name + ` e WHERE id > ?1 AND published_at IS NOT NULL ORDER BY id LIMIT ?2`,
		republish:   `UPDATE ` + name + ` SET published_at = NULL, attempts = 0, last_error = NULL WHERE id = ?1 AND published_at IS NOT NULL`,
		drop: `DELETE FROM ` + name + ` WHERE position IN (
			SELECT position FROM ` + name + ` WHERE retention_class = ?1 AND published_at < ?2 ORDER BY published_at LIMIT ?3)`,
	}
}

func (b *retaining) Next(ctx context.Context, q outbox.Query) (events []outbox.Event, more outbox.Parts, err error) {
	err = b.db.Read(ctx, "outbox.next", func(c *sqlite.Conn) error {
		events, err = sqlitedb.QueryAll(c, b.next, scanKept, int64(q.Parts), q.Now.UnixMicro(), q.Limit)
		return err
	})
	if len(events) == q.Limit {
		more = q.Parts
	}
	return events, more, err
}

func scanKept(s *sqlite.Stmt) outbox.Event {
	return outbox.Event{
		Owner: s.ColumnText(0), Seq: s.ColumnInt64(1), Position: s.ColumnInt64(1), Topic: s.ColumnText(2), Key: s.ColumnText(3),
		Payload: json.RawMessage(s.ColumnText(4)), At: time.UnixMicro(s.ColumnInt64(5)).UTC(),
		Name: s.ColumnText(6), Headers: json.RawMessage(s.ColumnText(7)), Class: s.ColumnText(8),
	}
}

func (b *retaining) Done(ctx context.Context, holder string, parts outbox.Parts, events []outbox.Event) error {
	return b.db.Write(ctx, "outbox.publish", func(c *sqlite.Conn) error {
		now := b.now().UnixMicro()
		for _, e := range events {
			if err := sqlitedb.Exec(c, b.done, e.Position, now); err != nil {
				return err
			}
		}
		return b.letGo(c, holder, parts)
	})
}

func (b *retaining) Refuse(ctx context.Context, e outbox.Event, reason string, decide func(attempts int) outbox.Decision) error {
	return b.db.Write(ctx, "outbox.refuse", func(c *sqlite.Conn) error {
		before, _, err := sqlitedb.QueryRow(c, b.attempts, func(s *sqlite.Stmt) int { return s.ColumnInt(0) }, e.Position)
		if err != nil {
			return err
		}
		d := decide(before + 1)
		if d.SetAside {
			return sqlitedb.Exec(c, b.die, e.Position, before+1, reason, d.At.UnixMicro())
		}
		return sqlitedb.Exec(c, b.delay, e.Position, before+1, reason, d.Next.UnixMicro())
	})
}

func (b *retaining) CountDead(ctx context.Context) (n int, err error) {
	err = b.db.Read(ctx, "outbox.count_dead", func(c *sqlite.Conn) error {
		n, _, err = sqlitedb.QueryRow(c, b.countDead, func(s *sqlite.Stmt) int { return s.ColumnInt(0) })
		return err
	})
	return n, err
}

func (b *retaining) ListDead(ctx context.Context, after outbox.ID, limit int) (dead []outbox.DeadEvent, err error) {
	err = b.db.Read(ctx, "outbox.list_dead", func(c *sqlite.Conn) error {
		dead, err = sqlitedb.QueryAll(c, b.listDead, func(s *sqlite.Stmt) outbox.DeadEvent {
			return outbox.DeadEvent{
				Event: scanKept(s), Attempts: s.ColumnInt(9), Reason: s.ColumnText(10), DiedAt: time.UnixMicro(s.ColumnInt64(11)).UTC(),
			}
		}, after.Seq, limit)
		return err
	})
	return dead, err
}

func (b *retaining) RetryDead(ctx context.Context, id outbox.ID) (bool, error) {
	return b.dead(ctx, "outbox.retry_dead", b.retryDead, id)
}

func (b *retaining) DropDead(ctx context.Context, id outbox.ID) (bool, error) {
	return b.dead(ctx, "outbox.drop_dead", b.dropDead, id)
}

// dead runs a statement for a dead letter and reports whether it changed a row.
func (b *retaining) dead(ctx context.Context, name, sql string, id outbox.ID) (found bool, err error) {
	err = b.db.Write(ctx, name, func(c *sqlite.Conn) error {
		err := sqlitedb.Exec(c, sql, id.Seq)
		found = c.Changes() == 1
		return err
	})
	return found && err == nil, err
}

func (b *retaining) FindDead(ctx context.Context, name string) (id outbox.ID, found bool, err error) {
	err = b.db.Read(ctx, "outbox.find_dead", func(c *sqlite.Conn) error {
		id, found, err = sqlitedb.QueryRow(c, b.find, func(s *sqlite.Stmt) outbox.ID {
			return outbox.ID{Owner: s.ColumnText(0), Seq: s.ColumnInt64(1)}
		}, name)
		return err
	})
	return id, found, err
}

func (b *retaining) Backlog(ctx context.Context) (n int, oldest time.Time, err error) {
	err = b.db.Read(ctx, "outbox.backlog", func(c *sqlite.Conn) error {
		n, _, err = sqlitedb.QueryRow(c, b.backlog, func(s *sqlite.Stmt) int {
			if !s.ColumnIsNull(1) {
				oldest = time.UnixMicro(s.ColumnInt64(1)).UTC()
			}
			return s.ColumnInt(0)
		})
		return err
	})
	return n, oldest, err
}

func (b *retaining) ListWaiting(ctx context.Context, after int64, limit int) (all []outbox.WaitingEvent, err error) {
	err = b.db.Read(ctx, "outbox.waiting", func(c *sqlite.Conn) error {
		all, err = sqlitedb.QueryAll(c, b.waiting, func(s *sqlite.Stmt) outbox.WaitingEvent {
			w := outbox.WaitingEvent{Event: scanKept(s), Attempts: s.ColumnInt(9), Reason: s.ColumnText(10)}
			if !s.ColumnIsNull(11) {
				w.Next = time.UnixMicro(s.ColumnInt64(11)).UTC()
			}
			return w
		}, after, limit)
		return err
	})
	return all, err
}

func (b *retaining) FindWaiting(ctx context.Context, name string) (position int64, found bool, err error) {
	err = b.db.Read(ctx, "outbox.find_waiting", func(c *sqlite.Conn) error {
		position, found, err = sqlitedb.QueryRow(c, b.findWaiting, func(s *sqlite.Stmt) int64 { return s.ColumnInt64(0) }, name)
		return err
	})
	return position, found, err
}

func (b *retaining) ListPublished(ctx context.Context, after string, limit int) (all []outbox.PublishedEvent, err error) {
	err = b.db.Read(ctx, "outbox.published", func(c *sqlite.Conn) error {
		all, err = sqlitedb.QueryAll(c, b.published, func(s *sqlite.Stmt) outbox.PublishedEvent {
			return outbox.PublishedEvent{Event: scanKept(s), Published: time.UnixMicro(s.ColumnInt64(9)).UTC()}
		}, after, limit)
		return err
	})
	return all, err
}

func (b *retaining) Republish(ctx context.Context, names []string) (n int, err error) {
	err = b.db.Write(ctx, "outbox.republish", func(c *sqlite.Conn) error {
		n = 0
		for _, name := range names {
			if err := sqlitedb.Exec(c, b.republish, name); err != nil {
				return err
			}
			n += c.Changes()
		}
		return nil
	})
	return n, err
}

func (b *retaining) DropPublished(ctx context.Context, class string, before time.Time, limit int) (n int, err error) {
	err = b.db.Write(ctx, "outbox.drop_published", func(c *sqlite.Conn) error {
		err := sqlitedb.Exec(c, b.drop, class, before.UnixMicro(), limit)
		n = c.Changes()
		return err
	})
	return n, err
}
