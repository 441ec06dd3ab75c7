package pgdb

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/internal/work"
)

// Rows is a result read row by row. It holds a connection until Close. It is not safe for concurrent use. (DB.Rows is
// something else.)
type Rows struct {
	rows     pgx.Rows
	conn     *pgxpool.Conn
	patience *patience
	timeout  time.Duration
	ahead    bool // the row that Stream read
	ended    bool // no more rows, or an error
	closed   bool
}

// Stream runs a query whose result may not fit in memory, and returns at the first row. It does not try again. The caller
// calls Next and Scan, then Err, and always Close; ctx must not end before.
func (db *DB) Stream(ctx context.Context, s Statement, args ...any) (*Rows, error) {
	start := time.Now()
	r, err := db.stream(ctx, &s, args)
	err = classify(err)
	db.observe(s.Name, start, err)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// stream is Stream without metrics and error codes.
func (db *DB) stream(ctx context.Context, s *Statement, args []any) (*Rows, error) {
	meter := work.Of(ctx)
	meter.Wait()
	defer meter.Resume()
	if err := db.fault(s.Name); err != nil {
		return nil, err
	}
	p := newPatience(ctx, db.opts.ConnectTimeout)
	at := nodeSlot{patience: p, meter: meter}
	if err := at.wait(db.nodeOf(s, args)); err != nil {
		p.end()
		return nil, err
	}
	defer at.leave() // the coordinator has all rows when it sends the first
	conn, err := db.acquire(p)
	if err != nil {
		p.end()
		return nil, err
	}
	r := &Rows{conn: conn, patience: p, timeout: db.opts.StatementTimeout}
	p.renew(r.timeout)
	if r.rows, err = conn.Query(p.Context, s.SQL, args...); err == nil {
		r.ahead = r.rows.Next()
		err = r.rows.Err()
	}
	p.pause()
	r.ended = !r.ahead
	if err == nil {
		db.pulse.beat()
		err = context.Cause(p.Context)
	}
	if err != nil {
		r.Close()
		return nil, p.explain(err)
	}
	return r, nil
}

// Next reports whether there is another row. The server gets StatementTimeout for each.
func (r *Rows) Next() bool {
	if r.ahead {
		r.ahead = false
		return true
	}
	if !r.ended {
		r.patience.renew(r.timeout)
		r.ended = !r.rows.Next()
		r.patience.pause()
	}
	return !r.ended
}

// Scan reads the row. A *pgtype.DriverBytes is valid until Next.
func (r *Rows) Scan(dest ...any) error { return classify(r.rows.Scan(dest...)) }

// Err returns the error that ended the rows, or nil.
func (r *Rows) Err() error { return classify(r.patience.explain(r.rows.Err())) }

// Close gives the connection back. If rows are left, it does so in the background, because cancelling the query takes
// time. It may be called repeatedly.
func (r *Rows) Close() {
	if r.closed {
		return
	}
	r.closed = true
	if r.ended {
		r.release()
		return
	}
	r.patience.end()
	go r.release()
}

// release reads or cancels the rest.
func (r *Rows) release() {
	spoiled := !r.ended
	if r.rows != nil {
		r.rows.Close()
		spoiled = spoiled || r.rows.Err() != nil
	}
	r.patience.end()
	release(r.conn, spoiled)
}
