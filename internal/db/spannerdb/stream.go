package spannerdb

import (
	"context"
	"errors"
	"time"

	"cloud.google.com/go/spanner"
	"google.golang.org/api/iterator"

	"holdfast/internal/errcode"
	"holdfast/internal/work"
)

// Rows is a query result read row by row from a snapshot. It counts as an open transaction until Close.
type Rows struct {
	db       *DB
	ctx      context.Context
	cancel   context.CancelFunc
	patience *time.Timer // cancels the query if a row takes too long
	tx       *spanner.ReadOnlyTransaction
	rows     *spanner.RowIterator
	first    *spanner.Row
	ahead    bool // Stream read the first row
	late     bool // patience fired
	closed   bool
}

// Stream runs a query whose result may not fit in memory, and returns at the first row. Always close the result.
func (db *DB) Stream(ctx context.Context, s Statement, p Params) (*Rows, error) {
	start := time.Now()
	r, err := db.stream(ctx, s, p)
	if err := db.observe(s.Name, start, err); err != nil {
		return nil, err
	}
	return r, nil
}

func (db *DB) stream(ctx context.Context, s Statement, p Params) (*Rows, error) {
	meter := work.Of(ctx)
	meter.Wait()
	defer meter.Resume()
	if err := db.fault(s.Name); err != nil {
		return nil, err
	}
	if err := db.enter(ctx, db.slots); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	client := db.client.Load()
	r := &Rows{db: db, ctx: ctx, cancel: cancel, tx: client.Single(), patience: time.AfterFunc(db.opts.Timeout, cancel)}
	r.rows = r.tx.Query(ctx, s.with(p))
	var err error
	if r.first, err = r.next(); err != nil {
		r.Close()
		db.renew(client, err)
		return nil, err
	}
	r.ahead = true
	return r, nil
}

var errLate = errcode.New(errcode.Unavailable, "the database took too long")

func (r *Rows) next() (*spanner.Row, error) {
	if r.late {
		return nil, errLate
	}
	r.patience.Reset(r.db.opts.Timeout)
	row, err := r.rows.Next()
	r.late = !r.patience.Stop()
	switch {
	case errors.Is(err, iterator.Done):
		return nil, nil
	case err != nil && r.late:
		return nil, errLate
	}
	return row, err
}

// Next returns the next row, or nil at the end.
func (r *Rows) Next() (*spanner.Row, error) {
	if r.ahead {
		r.ahead = false
		return r.first, nil
	}
	row, err := r.next()
	return row, classify(err)
}

// Beside runs another query on the same snapshot.
func (r *Rows) Beside(s Statement, p Params, fn func(*spanner.Row) error) error {
	start := time.Now()
	return r.db.observe(s.Name, start, r.beside(s, p, fn))
}

func (r *Rows) beside(s Statement, p Params, fn func(*spanner.Row) error) error {
	meter := work.Of(r.ctx)
	meter.Wait()
	defer meter.Resume()
	if err := r.db.fault(s.Name); err != nil {
		return err
	}
	at, err := r.tx.Timestamp()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.db.opts.Timeout)
	defer cancel()
	return r.db.client.Load().Single().WithTimestampBound(spanner.ReadTimestamp(at)).Query(ctx, s.with(p)).Do(fn)
}

// Close ends the query and frees its slot.
func (r *Rows) Close() {
	if r.closed {
		return
	}
	r.closed = true
	r.patience.Stop()
	r.cancel()
	r.rows.Stop()
	leave(r.db.slots)
}
