package postgres

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/outbox"
)

// RetainingDDL creates a retaining table and its lease table.
//
// Each publication leaves a dead row in a table with possibly millions of rows. Vacuum must not wait until a
// fraction of them is dead, because the relay would skip many dead index entries.
func RetainingDDL(name string) string {
	digit := `(ascii(right(ordering_key, 1)) & 15) + 9 * (ascii(right(ordering_key, 1)) >> 6)`
	return `CREATE TABLE ` + name + ` (
	id text COLLATE "C" PRIMARY KEY,
	topic text NOT NULL,
	payload json NOT NULL,
	headers jsonb NOT NULL,
	retention_class text NOT NULL,
	created_at timestamptz NOT NULL DEFAULT now(),
	published_at timestamptz,
	attempts integer NOT NULL DEFAULT 0,
	last_error text,
	position bigint GENERATED ALWAYS AS IDENTITY,
	ordering_key text COLLATE "C" NOT NULL,
	subject text NOT NULL,
	next_attempt_at timestamptz,
	dead_at timestamptz,
	part smallint NOT NULL GENERATED ALWAYS AS ((` + digit + `) % ` + strconv.Itoa(outbox.Partitions) + `) STORED
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000, vacuum_index_cleanup = on);
CREATE INDEX ` + name + `_unpublished ON ` + name + ` (part, position) WHERE published_at IS NULL AND dead_at IS NULL;
CREATE INDEX ` + name + `_delayed ON ` + name + ` (ordering_key, position)
	WHERE published_at IS NULL AND dead_at IS NULL AND next_attempt_at IS NOT NULL;
CREATE INDEX ` + name + `_dead ON ` + name + ` (position) WHERE dead_at IS NOT NULL;
CREATE INDEX ` + name + `_published ON ` + name + ` (retention_class, published_at) WHERE published_at IS NOT NULL;
CREATE TABLE ` + name + `_relay (part smallint PRIMARY KEY, holder text NOT NULL, held_until timestamptz NOT NULL);
INSERT INTO ` + name + `_relay SELECT n, '', '-infinity' FROM generate_series(0, ` + strconv.Itoa(outbox.Leases-1) + `) n;
`
}

// retaining is the box for a retaining table, which Citus does not distribute.
type retaining struct {
	box

	next, done, attempts, delay, die               pgdb.Statement
	countDead, listDead, retryDead, dropDead, find pgdb.Statement
	backlog, waiting, findWaiting, drop            pgdb.Statement
	published, republish                           pgdb.Statement
}

func (*retaining) Distributed(context.Context) (bool, error) { return false, nil }

// OpenRetaining returns a relay's box for a retaining table.
func OpenRetaining(db *pgdb.DB, name string) outbox.Retaining {
	const (
		waits  = ` published_at IS NULL AND dead_at IS NULL`
		event  = ` e.ordering_key, e.position, e.topic, e.subject, e.payload::text, e.created_at, e.part, e.id, e.headers::text, e.retention_class`
		failed = event + `, e.attempts, coalesce(e.last_error, '')`
		one    = ` WHERE part = $1 AND position = $2 AND` + waits
		dead   = ` WHERE position = $1 AND dead_at IS NOT NULL AND published_at IS NULL`
	)
	return &retaining{
		box: box{sql: New(outbox.Table{Name: name, Owner: "ordering_key", Stream: "ordering_key", Type: "text"}), db: db},
		next: pgdb.Statement{Name: "outbox.next", SQL: `
			SELECT` + event + ` FROM unnest($1::smallint[]) p (part), LATERAL (
				SELECT ordering_key, position, topic, subject, payload, created_at, part, id, headers, retention_class FROM ` + name + ` e WHERE e.part = p.part AND` + waits + `
				AND NOT EXISTS (SELECT 1 FROM ` + name + ` r WHERE r.ordering_key = e.ordering_key AND r.position <= e.position
					AND r.published_at IS NULL AND r.dead_at IS NULL AND r.next_attempt_at > $3)
				ORDER BY e.position LIMIT $2::bigint) e ORDER BY e.position`},
		// OFFSET prevents a join, which would read the whole index of a long backlog. Equal times share an index entry:
		// with seconds, the index is a fifth as large as with microseconds.
		done: pgdb.Statement{Name: "outbox.publish", SQL: `
			WITH released AS (UPDATE ` + name + `_relay SET held_until = '-infinity' WHERE holder = $3::text AND part = ANY ($4::smallint[]))
			UPDATE ` + name + ` SET published_at = date_trunc('second', clock_timestamp()), next_attempt_at = NULL WHERE ctid = ANY (ARRAY(
				SELECT e.ctid FROM unnest($1::smallint[], $2::bigint[]) p (part, position), LATERAL (
					SELECT ctid FROM ` + name + ` WHERE part = p.part AND position = p.position AND` + waits + ` OFFSET 0) e))`},
		attempts: pgdb.Statement{Name: "outbox.attempts", SQL: `SELECT attempts FROM ` + name + one + ` FOR UPDATE`},
		delay: pgdb.Statement{Name: "outbox.delay", SQL: `
			UPDATE ` + name + ` SET attempts = $3, last_error = $4, next_attempt_at = $5` + one},
		die: pgdb.Statement{Name: "outbox.set_aside", SQL: `
			UPDATE ` + name + ` SET attempts = $3, last_error = $4, next_attempt_at = NULL, dead_at = $5` + one},
		countDead: pgdb.Statement{Name: "outbox.count_dead", SQL: `SELECT count(*) FROM (SELECT 1 FROM ` + name + ` WHERE dead_at IS NOT NULL LIMIT ` + strconv.Itoa(outbox.MaxDead) + `) e`},
		listDead: pgdb.Statement{Name: "outbox.list_dead", SQL: `
			SELECT` + failed + `, e.dead_at FROM ` + name + ` e WHERE dead_at IS NOT NULL AND position > $1 ORDER BY position LIMIT $2`},
		retryDead: pgdb.Statement{Name: "outbox.retry_dead", SQL: `
			UPDATE ` + name + ` SET attempts = 0, next_attempt_at = NULL, dead_at = NULL` + dead},
		dropDead: pgdb.Statement{Name: "outbox.drop_dead", SQL: `DELETE FROM ` + name + dead},
		find: pgdb.Statement{Name: "outbox.find_dead", SQL: `
			SELECT ordering_key, position FROM ` + name + ` WHERE id = $1 AND dead_at IS NOT NULL`},
		backlog: pgdb.Statement{Name: "outbox.backlog", SQL: `
			SELECT count(*), min(created_at) FROM (SELECT created_at FROM ` + name + ` WHERE` + waits + ` LIMIT ` + strconv.Itoa(outbox.MaxBacklog) + `) e`},
		waiting: pgdb.Statement{Name: "outbox.waiting", SQL: `
			SELECT` + failed + `, e.next_attempt_at
			FROM generate_series(0, ` + strconv.Itoa(outbox.Partitions-1) + `) p, LATERAL (
				SELECT ordering_key, position, topic, subject, payload, created_at, part, id, headers, retention_class, attempts, last_error, next_attempt_at
				FROM ` + name + ` WHERE part = p::smallint AND` + waits + ` AND position > $1 ORDER BY position LIMIT $2
			) e ORDER BY position LIMIT $2`},
		findWaiting: pgdb.Statement{Name: "outbox.find_waiting", SQL: `SELECT position FROM ` + name + ` WHERE id = $1 AND` + waits},
		published: pgdb.Statement{Name: "outbox.published", SQL: `
			SELECT` + event + `, e.published_at FROM ` + name + ` e WHERE id > $1 AND published_at IS NOT NULL ORDER BY id LIMIT $2`},
		republish: pgdb.Statement{Name: "outbox.republish", SQL: `
			UPDATE ` + name + ` SET published_at = NULL, attempts = 0, last_error = NULL WHERE id = ANY ($1::text[]) AND published_at IS NOT NULL`},
		drop: pgdb.Statement{Name: "outbox.drop_published", SQL: `
			DELETE FROM ` + name + ` WHERE ctid = ANY (ARRAY(SELECT ctid FROM ` + name + `
				WHERE retention_class = $1 AND published_at < $2 ORDER BY published_at LIMIT $3 FOR UPDATE SKIP LOCKED))`},
	}
}

// row is an event while it is scanned.
type row struct {
	outbox.Event
	part                      int
	payload, headers, problem string
	attempts                  int
	at                        pgtype.Timestamptz
}

// dest returns the columns that all statements select.
func (r *row) dest() []any {
	return []any{&r.Owner, &r.Seq, &r.Topic, &r.Key, &r.payload, &r.At, &r.part, &r.Name, &r.headers, &r.Class}
}

// failedDest adds the columns about failures.
func (r *row) failedDest() []any { return append(r.dest(), &r.attempts, &r.problem, &r.at) }

func (r *row) event() outbox.Event {
	e := r.Event
	e.Payload, e.Headers, e.At, e.Position = json.RawMessage(r.payload), json.RawMessage(r.headers), e.At.UTC(), e.Seq
	return e
}

func (b *retaining) Next(ctx context.Context, q outbox.Query) (events []outbox.Event, full outbox.Parts, err error) {
	var (
		r     row
		of    [outbox.Partitions]int
		limit = outbox.Split(q.Limit, q.Parts)
	)
	err = b.db.ForEach(ctx, b.next, []any{array(q.Parts), limit, q.Now}, func() { events, full, of = nil, 0, [outbox.Partitions]int{} }, func() error {
		events = append(events, r.event())
		if of[r.part]++; of[r.part] == limit {
			full |= outbox.PartsOf(r.part)
		}
		return nil
	}, r.dest()...)
	return events, full, err
}

func (b *retaining) Done(ctx context.Context, holder string, parts outbox.Parts, events []outbox.Event) error {
	of, positions := make([]int16, len(events)), make([]int64, len(events))
	for i, e := range events {
		of[i], positions[i] = partition(e), e.Position
	}
	_, err := b.db.Exec(ctx, b.done, of, positions, holder, array(parts))
	return err
}

func (b *retaining) Refuse(ctx context.Context, e outbox.Event, reason string, decide func(attempts int) outbox.Decision) error {
	return b.db.Tx(ctx, "outbox.refuse", func(tx *pgdb.Tx) error {
		var before int
		if _, err := tx.QueryRow(b.attempts, []any{partition(e), e.Position}, &before); err != nil {
			return err
		}
		d := decide(before + 1)
		statement, at := b.delay, d.Next
		if d.SetAside {
			statement, at = b.die, d.At
		}
		_, err := tx.Exec(statement, partition(e), e.Position, before+1, reason, at)
		return err
	})
}

func (b *retaining) CountDead(ctx context.Context) (n int, err error) {
	_, err = b.db.QueryRow(ctx, b.countDead, nil, &n)
	return n, err
}

func (b *retaining) ListDead(ctx context.Context, after outbox.ID, limit int) (dead []outbox.DeadEvent, err error) {
	var r row
	err = b.db.ForEach(ctx, b.listDead, []any{after.Seq, limit}, func() { dead = nil }, func() error {
		dead = append(dead, outbox.DeadEvent{Event: r.event(), Attempts: r.attempts, Reason: r.problem, DiedAt: r.at.Time.UTC()})
		return nil
	}, r.failedDest()...)
	return dead, err
}

func (b *retaining) RetryDead(ctx context.Context, id outbox.ID) (bool, error) {
	n, err := b.db.Exec(ctx, b.retryDead, id.Seq)
	return n == 1, err
}

func (b *retaining) DropDead(ctx context.Context, id outbox.ID) (bool, error) {
	n, err := b.db.Exec(ctx, b.dropDead, id.Seq)
	return n == 1, err
}

func (b *retaining) FindDead(ctx context.Context, name string) (id outbox.ID, found bool, err error) {
	found, err = b.db.QueryRow(ctx, b.find, []any{name}, &id.Owner, &id.Seq)
	return id, found, err
}

func (b *retaining) Backlog(ctx context.Context) (n int, oldest time.Time, err error) {
	var at pgtype.Timestamptz
	_, err = b.db.QueryRow(ctx, b.backlog, nil, &n, &at)
	if at.Valid {
		oldest = at.Time.UTC()
	}
	return n, oldest, err
}

func (b *retaining) ListWaiting(ctx context.Context, after int64, limit int) (all []outbox.WaitingEvent, err error) {
	var r row
	err = b.db.ForEach(ctx, b.waiting, []any{after, limit}, func() { all = nil }, func() error {
		w := outbox.WaitingEvent{Event: r.event(), Attempts: r.attempts, Reason: r.problem}
		if r.at.Valid {
			w.Next = r.at.Time.UTC()
		}
		all = append(all, w)
		return nil
	}, r.failedDest()...)
	return all, err
}

func (b *retaining) FindWaiting(ctx context.Context, name string) (position int64, found bool, err error) {
	found, err = b.db.QueryRow(ctx, b.findWaiting, []any{name}, &position)
	return position, found, err
}

func (b *retaining) ListPublished(ctx context.Context, after string, limit int) (all []outbox.PublishedEvent, err error) {
	var (
		r  row
		at time.Time
	)
	err = b.db.ForEach(ctx, b.published, []any{after, limit}, func() { all = nil }, func() error {
		all = append(all, outbox.PublishedEvent{Event: r.event(), Published: at.UTC()})
		return nil
	}, append(r.dest(), &at)...)
	return all, err
}

func (b *retaining) Republish(ctx context.Context, names []string) (int, error) {
	n, err := b.db.Exec(ctx, b.republish, names)
	return int(n), err
}

func (b *retaining) DropPublished(ctx context.Context, class string, before time.Time, limit int) (int, error) {
	n, err := b.db.Exec(ctx, b.drop, class, before, limit)
	return int(n), err
}
