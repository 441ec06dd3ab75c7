// Package postgres keeps a room's outbox in PostgreSQL, on one server or
// distributed over many by Citus.
//
// A room's own function appends: it inserts a row in the transaction of the
// change. The columns are those of DDL, in the words of outbox.Event; payload is
// json and not jsonb, so that it is published as it was written.
//
// On Citus the migration distributes the table by its owner, beside the room's
// others. The table of the lease has one row and stays on the coordinator.
package postgres

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/outbox"
)

// Outbox is the SQL of a room's table.
type Outbox struct {
	ddl                                    string
	next, done, doneStream, claim, release pgdb.Statement
}

// New writes the SQL of a table.
func New(t outbox.Table) *Outbox {
	key := t.Owner + `, ` + t.Stream + `, seq`
	column := t.Type
	if column == "text" {
		column = `text COLLATE "C"`
	}
	return &Outbox{
		ddl: `CREATE TABLE ` + t.Name + ` (
	` + t.Owner + ` ` + column + ` NOT NULL,
	` + t.Stream + ` ` + column + ` NOT NULL,
	seq bigint NOT NULL CHECK (seq > 0),
	topic text NOT NULL,
	key text NOT NULL,
	payload json NOT NULL,
	created_at timestamptz NOT NULL,
	PRIMARY KEY (` + key + `)
);

CREATE TABLE ` + t.Name + `_relay (
	one integer PRIMARY KEY CHECK (one = 1),
	holder text NOT NULL,
	held_until timestamptz NOT NULL
);
`,
		next: pgdb.Statement{Name: "outbox.next", SQL: `
			SELECT e.` + t.Owner + `::text, e.` + t.Stream + `::text, e.seq, e.topic, e.key, e.payload::text, e.created_at
			FROM ` + t.Name + ` e ORDER BY e.` + t.Owner + `, e.` + t.Stream + `, e.seq LIMIT $1::bigint`},
		// Between the first and the last: the planner would else read all of a
		// table in which much waits.
		done: pgdb.Statement{Name: "outbox.done", SQL: `
			DELETE FROM ` + t.Name + ` e USING unnest($1::text[], $2::text[], $3::bigint[]) p (owner, stream, seq)
			WHERE e.` + t.Owner + ` = p.owner::` + t.Type + ` AND e.` + t.Stream + ` = p.stream::` + t.Type + ` AND e.seq = p.seq
			AND (e.` + t.Owner + `, e.` + t.Stream + `, e.seq) >= ` + row(`1`, t.Type) + `
			AND (e.` + t.Owner + `, e.` + t.Stream + `, e.seq) <= ` + row(`cardinality($3::bigint[])`, t.Type)},
		doneStream: pgdb.Statement{Name: "outbox.done_stream", SQL: `
			DELETE FROM ` + t.Name + ` WHERE ` + t.Owner + ` = $1::` + t.Type + ` AND ` + t.Stream + ` = $2::` + t.Type + ` AND seq = ANY ($3::bigint[])`},
		// The clock is the server's. A lease that ends later than one that is
		// given now is of a clock that has been turned back. Now is when the row is
		// locked: who has waited for another's claim was given values before it.
		claim: pgdb.Statement{Name: "outbox.claim", SQL: `
			INSERT INTO ` + t.Name + `_relay AS r (one, holder, held_until)
			VALUES (1, $1::text, clock_timestamp() + $2::bigint * interval '1 microsecond')
			ON CONFLICT (one) DO UPDATE SET holder = EXCLUDED.holder, held_until = EXCLUDED.held_until
			WHERE r.holder = EXCLUDED.holder OR r.held_until <= clock_timestamp() OR r.held_until > clock_timestamp() + $2::bigint * interval '1 microsecond'`},
		release: pgdb.Statement{Name: "outbox.release", SQL: `
			UPDATE ` + t.Name + `_relay SET held_until = '-infinity' WHERE holder = $1::text`},
	}
}

// row is the event at a place in the arguments of done.
func row(place, column string) string {
	return `(($1::text[])[` + place + `]::` + column + `, ($2::text[])[` + place + `]::` + column + `, ($3::bigint[])[` + place + `])`
}

// DDL is the text that makes the tables. A migration of the room has a copy of
// it, because a migration never changes.
func (o *Outbox) DDL() string { return o.ddl }

// Open is the table in a database, as a relay needs it.
func (o *Outbox) Open(db *pgdb.DB) outbox.Box { return &box{sql: o, db: db} }

// box implements outbox.Box.
type box struct {
	sql   *Outbox
	db    *pgdb.DB
	citus atomic.Pointer[bool]
}

func (b *box) Claim(ctx context.Context, holder string, lease time.Duration) (bool, error) {
	n, err := b.db.Exec(ctx, b.sql.claim, holder, lease.Microseconds())
	return n == 1, err
}

func (b *box) Release(ctx context.Context, holder string) error {
	_, err := b.db.Exec(ctx, b.sql.release, holder)
	return err
}

func (b *box) Next(ctx context.Context, limit int) (events []outbox.Event, err error) {
	var (
		e       outbox.Event
		payload string
	)
	err = b.db.Each(ctx, b.sql.next, []any{limit}, func() { events = nil }, func() error {
		e.Payload, e.At = json.RawMessage(payload), e.At.UTC()
		events = append(events, e)
		return nil
	}, &e.Owner, &e.Stream, &e.Seq, &e.Topic, &e.Key, &payload, &e.At)
	return events, err
}

// Done implements outbox.Box: by one statement, or on Citus by one for each
// stream, which is a matter of one node.
func (b *box) Done(ctx context.Context, events []outbox.Event) error {
	distributed, err := b.distributed(ctx)
	if err != nil {
		return err
	}
	if distributed {
		return b.doneStreams(ctx, events)
	}
	owners, streams, numbers := make([]string, len(events)), make([]string, len(events)), make([]int64, len(events))
	for i, e := range events {
		owners[i], streams[i], numbers[i] = e.Owner, e.Stream, e.Seq
	}
	_, err = b.db.Exec(ctx, b.sql.done, owners, streams, numbers)
	return err
}

// atOnce is how many streams are deleted from at once.
const atOnce = 4

func (b *box) doneStreams(ctx context.Context, events []outbox.Event) error {
	type stream struct{ owner, name string }
	numbers := map[stream][]int64{}
	for _, e := range events {
		s := stream{e.Owner, e.Stream}
		numbers[s] = append(numbers[s], e.Seq)
	}
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(atOnce)
	for s, seqs := range numbers {
		work.Go(func() error {
			_, err := b.db.Exec(ctx, b.sql.doneStream, s.owner, s.name, seqs)
			return err
		})
	}
	return work.Wait()
}

// distributed asks the database once whether it is one of Citus.
func (b *box) distributed(ctx context.Context) (bool, error) {
	if known := b.citus.Load(); known != nil {
		return *known, nil
	}
	citus, err := b.db.IsCitus(ctx)
	if err == nil {
		b.citus.Store(&citus)
	}
	return citus, err
}
