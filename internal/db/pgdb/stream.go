package pgdb

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/internal/fault"
)

// Rows is the answer of a statement that is read row by row. It holds a
// connection until Close.
type Rows struct {
	rows     pgx.Rows
	conn     *pgxpool.Conn
	cancel   context.CancelFunc
	patience *time.Timer // cancels when it runs out, while the server is waited for
	timeout  time.Duration
	ahead    bool // the first row has been asked for and not been handed out
	ended    bool
	closed   bool
}

// Stream runs a statement whose answer may be larger than what should be in
// memory. It returns when the first row is there. The statement's timeout
// bounds the wait for that and for each row after it; how fast they are read is
// the reader's affair.
func (db *DB) Stream(ctx context.Context, s Statement, args ...any) (*Rows, error) {
	start := time.Now()
	r, err := db.stream(ctx, s, args)
	err = classify(err)
	db.observe(s.Name, start, err)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (db *DB) stream(ctx context.Context, s Statement, args []any) (*Rows, error) {
	if err := db.fault(s.Name); err != nil {
		return nil, err
	}
	conn, err := db.acquire(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	timeout := db.opts.StatementTimeout
	r := &Rows{conn: conn, cancel: cancel, timeout: timeout, patience: time.AfterFunc(timeout, cancel)}
	if r.rows, err = conn.Query(ctx, s.SQL, args...); err == nil {
		r.ahead = r.rows.Next()
		err = r.rows.Err()
	}
	r.ended = !r.ahead
	inTime := r.patience.Stop()
	if err == nil && inTime {
		return r, nil
	}
	r.Close()
	if !inTime {
		return nil, fault.Wrap(fault.Unavailable, "the database took too long", err)
	}
	return nil, err
}

// Next goes to the next row, the first one to begin with.
func (r *Rows) Next() bool {
	if r.ahead {
		r.ahead = false
		return true
	}
	if !r.ended {
		r.patience.Reset(r.timeout)
		r.ended = !r.rows.Next()
		r.patience.Stop()
	}
	return !r.ended
}

// Scan reads the row into dest. What it puts into a *pgtype.DriverBytes is
// valid until Next.
func (r *Rows) Scan(dest ...any) error { return classify(r.rows.Scan(dest...)) }

// Err says why Next has returned false; nil at the end of the rows.
func (r *Rows) Err() error { return classify(r.rows.Err()) }

// Close gives the connection back; a second call does nothing. Rows that
// nobody has read are not fetched: the server is told to stop, which nobody
// waits for, and the connection is closed.
func (r *Rows) Close() {
	if r.closed {
		return
	}
	r.closed = true
	if r.ended {
		r.release()
		return
	}
	r.cancel()
	go r.release()
}

func (r *Rows) release() {
	spoiled := !r.ended
	if r.rows != nil {
		r.rows.Close()
		spoiled = spoiled || r.rows.Err() != nil
	}
	r.cancel()
	release(r.conn, spoiled)
}
