package postgres

import (
	"context"
	"encoding/json"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/outbox"
)

// Refuse uses statements that each affect a single row, so on Citus the transaction runs on a single node.
func (b *box) Refuse(ctx context.Context, e outbox.Event, reason string, decide func(attempts int) outbox.Decision) error {
	return b.db.Tx(ctx, "outbox.refuse", func(tx *pgdb.Tx) error {
		var before int
		if _, err := tx.QueryRow(b.sql.attempts, []any{e.Owner, e.Stream, e.Seq}, &before); err != nil {
			return err
		}
		d := decide(before + 1)
		next := &d.Next
		if d.SetAside {
			next = nil
			if _, err := tx.Exec(b.sql.remove, e.Owner, e.Stream, e.Seq, partition(e)); err != nil {
				return err
			}
		}
		_, err := tx.Exec(b.sql.refuse, e.Owner, e.Stream, e.Seq, e.Topic, e.Key, string(e.Payload), e.At, before+1, reason, d.At, next)
		return err
	})
}

func (b *box) CountDead(ctx context.Context) (n int, err error) {
	_, err = b.db.QueryRow(ctx, b.sql.countDead, nil, &n)
	return n, err
}

func (b *box) ListDead(ctx context.Context, after outbox.ID, limit int) (dead []outbox.DeadEvent, err error) {
	var (
		d       outbox.DeadEvent
		payload string
		owner   = nullable(after.Owner)
		stream  = nullable(after.Stream)
	)
	err = b.db.ForEach(ctx, b.sql.listDead, []any{after != outbox.ID{}, owner, stream, after.Seq, limit}, func() { dead = nil }, func() error {
		d.Payload, d.At, d.DiedAt = json.RawMessage(payload), d.At.UTC(), d.DiedAt.UTC()
		dead = append(dead, d)
		return nil
	}, &d.Owner, &d.Stream, &d.Seq, &d.Topic, &d.Key, &payload, &d.At, &d.Attempts, &d.Reason, &d.DiedAt)
	return dead, err
}

// nullable returns nil for "", which is no UUID.
func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (b *box) RetryDead(ctx context.Context, id outbox.ID) (bool, error) {
	return b.dead(ctx, "outbox.retry_dead", id, func(tx *pgdb.Tx, e outbox.Event) error {
		_, err := tx.Exec(b.sql.putEvent, e.Owner, e.Stream, e.Seq, e.Topic, e.Key, string(e.Payload), e.At)
		return err
	})
}

func (b *box) DropDead(ctx context.Context, id outbox.ID) (bool, error) {
	return b.dead(ctx, "outbox.drop_dead", id, func(*pgdb.Tx, outbox.Event) error { return nil })
}

// dead takes a dead letter out of its table and calls to in the same transaction.
func (b *box) dead(ctx context.Context, name string, id outbox.ID, to func(*pgdb.Tx, outbox.Event) error) (found bool, err error) {
	err = b.db.Tx(ctx, name, func(tx *pgdb.Tx) error {
		e := outbox.Event{Owner: id.Owner, Stream: id.Stream, Seq: id.Seq}
		var payload string
		if found, err = tx.QueryRow(b.sql.takeDead, []any{id.Owner, id.Stream, id.Seq}, &e.Topic, &e.Key, &payload, &e.At); err != nil || !found {
			return err
		}
		e.Payload = json.RawMessage(payload)
		return to(tx, e)
	})
	return found && err == nil, err
}
