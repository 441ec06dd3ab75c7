// Package postgres stores a service's outbox in PostgreSQL, on a single server or distributed by Citus.
//
// payload is json rather than jsonb, so that it is published as written.
//
// The lease table stays on the coordinator.
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

// DDL returns the CREATE TABLE statements. A service's migration contains a copy, because migrations never change.
func (o *Outbox) DDL() string { return o.ddl }

// Open returns a relay's box. On Citus, db is from pgdb.DB.Distributed, so that a hanging worker does not take all
// connections.
func (o *Outbox) Open(db *pgdb.DB) outbox.Box { return &box{sql: o, db: db} }

// OpenTopic returns a box for the events with one topic, if Table.ByTopic is set.
func (o *Outbox) OpenTopic(db *pgdb.DB, topic string) outbox.Counted {
	return &topicBox{box{sql: o, db: db, topic: topic}}
}

// topicBox counts only its topic's events.
type topicBox struct{ box }

func (b *topicBox) Backlog(ctx context.Context) (n int, oldest time.Time, err error) {
	var at *time.Time
	if _, err = b.db.QueryRow(ctx, b.sql.backlog, []any{b.topic}, &n, &at); err == nil && at != nil {
		oldest = at.UTC()
	}
	return n, oldest, err
}

func (b *topicBox) CountDead(ctx context.Context) (n int, err error) {
	_, err = b.db.QueryRow(ctx, b.sql.countDeadOf, []any{b.topic}, &n)
	return n, err
}

// box implements outbox.Box.
type box struct {
	sql   *Outbox
	db    *pgdb.DB
	topic string               // "" unless Table.ByTopic is set
	citus atomic.Pointer[bool] // nil: unknown
}

// with adds the topic to the arguments.
func (b *box) with(args ...any) []any {
	if b.sql.byTopic {
		args = append(args, b.topic)
	}
	return args
}

// array returns the partitions as a smallint[].
func array(parts outbox.Parts) []int16 {
	all := make([]int16, 0, parts.Len())
	for p := range parts.All() {
		all = append(all, int16(p))
	}
	return all
}

func (b *box) Claim(ctx context.Context, holder string, lease time.Duration, parts outbox.Parts) (held outbox.Parts, err error) {
	var part int
	err = b.db.ForEach(ctx, b.sql.claim, b.with(holder, lease.Microseconds(), array(parts)), func() { held = 0 }, func() error {
		held |= outbox.PartsOf(part)
		return nil
	}, &part)
	if err != nil {
		return 0, err
	}
	return held, nil
}

func (b *box) Release(ctx context.Context, holder string, parts outbox.Parts) error {
	_, err := b.db.Exec(ctx, b.sql.release, b.with(holder, array(parts))...)
	return err
}

// Next uses a statement per owner on Citus, each on a single node.
func (b *box) Next(ctx context.Context, q outbox.Query) (events []outbox.Event, more outbox.Parts, err error) {
	distributed, err := b.Distributed(ctx)
	if err != nil {
		return nil, 0, err
	}
	if !distributed {
		each := outbox.Split(q.Limit, q.Parts)
		return b.read(ctx, b.sql.next, each, b.with(array(q.Parts), each, q.Now)...)
	}
	if q.Owners == nil {
		events, _, err = b.read(ctx, b.sql.nextOnCitus, q.Limit, b.with(array(q.Parts), q.Limit, q.Now)...)
		if len(events) == q.Limit {
			more = q.Parts
		}
		return events, more, err
	}
	for _, owner := range q.Owners {
		limit := max(q.Limit/len(q.Owners), 1)
		some, _, err := b.read(ctx, b.sql.nextOfOwner, limit, b.with(array(q.Parts), limit, q.Now, owner)...)
		if err != nil {
			return nil, 0, err
		}
		if len(some) == limit {
			more = q.Parts
		}
		events = append(events, some...)
	}
	return events, more, nil
}

// read returns events, and the partitions with limit events, which may have more.
func (b *box) read(ctx context.Context, s pgdb.Statement, limit int, args ...any) (events []outbox.Event, full outbox.Parts, err error) {
	var (
		e       outbox.Event
		payload string
		part    int
		of      [outbox.Partitions]int
	)
	err = b.db.ForEach(ctx, s, args, func() { events, full, of = nil, 0, [outbox.Partitions]int{} }, func() error {
		e.Payload, e.At = json.RawMessage(payload), e.At.UTC()
		events = append(events, e)
		if of[part]++; of[part] == limit {
			full |= outbox.PartsOf(part)
		}
		return nil
	}, &e.Owner, &e.Stream, &e.Seq, &e.Topic, &e.Key, &payload, &e.At, &part)
	return events, full, err
}

// Done uses a statement per stream on Citus, each on a single node.
func (b *box) Done(ctx context.Context, holder string, parts outbox.Parts, events []outbox.Event) error {
	distributed, err := b.Distributed(ctx)
	if err != nil {
		return err
	}
	if distributed {
		if err := b.doneStreams(ctx, events); err != nil {
			return err
		}
		return b.Release(ctx, holder, parts)
	}
	n := len(events)
	owners, streams, numbers, of := make([]string, n), make([]string, n), make([]int64, n), make([]int16, n)
	for i, e := range events {
		owners[i], streams[i], numbers[i], of[i] = e.Owner, e.Stream, e.Seq, partition(e)
	}
	_, err = b.db.Exec(ctx, b.sql.done, b.with(owners, streams, numbers, of, holder, array(parts))...)
	return err
}

func partition(e outbox.Event) int16 { return int16(outbox.Partition(e.Owner, e.Stream)) }

// atOnce is how many streams' statements run at once on Citus.
const atOnce = 4

// doneStreams deletes published events stream by stream.
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
			_, err := b.db.Exec(ctx, b.sql.doneStream, s.owner, s.name, seqs, int16(outbox.Partition(s.owner, s.name)))
			return err
		})
	}
	return work.Wait()
}

// Distributed asks once: a database does not become a cluster while a server runs.
func (b *box) Distributed(ctx context.Context) (bool, error) {
	if known := b.citus.Load(); known != nil {
		return *known, nil
	}
	citus, err := b.db.IsCitus(ctx)
	if err == nil {
		b.citus.Store(&citus)
	}
	return citus, err
}
