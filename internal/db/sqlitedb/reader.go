package sqlitedb

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/fault"
)

// Read runs fn on one snapshot: all its statements see the same state. fn must
// not write.
func (db *DB) Read(ctx context.Context, name string, fn func(*sqlite.Conn) error) error {
	start := time.Now()
	err := db.read(ctx, fn)
	db.observe(name, start, err)
	return err
}

func (db *DB) read(ctx context.Context, fn func(*sqlite.Conn) error) error {
	conn, release, err := db.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer release()
	return classify(fn(conn))
}

// Snapshot hands out a connection with an open read transaction, for an
// answer that is streamed. It must be released soon: a snapshot keeps the WAL
// from being checkpointed past it, and readers are limited.
func (db *DB) Snapshot(ctx context.Context) (conn *sqlite.Conn, release func(), err error) {
	conn, giveBack, err := db.readers.take(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := sqlitex.Execute(conn, `BEGIN`, nil); err != nil {
		giveBack()
		return nil, nil, classify(err)
	}
	return conn, func() {
		// Ending a read transaction cannot fail in a way that matters: the
		// connection is checked when it is handed out again.
		_ = sqlitex.Execute(conn, `ROLLBACK`, nil)
		giveBack()
	}, nil
}

// Connections is how many connections read now, how many are open and idle, and
// how many may be at once.
func (db *DB) Connections() (active, idle, most int) {
	r := &db.readers
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.free), len(r.idle), cap(r.free)
}

// Waits is how many reads have waited for a connection so far, and how long in
// sum.
func (db *DB) Waits() (n int64, total time.Duration) {
	return db.readers.waits.Load(), time.Duration(db.readers.waited.Load())
}

// Queued is how many writes wait for their turn; there is room for 256.
func (db *DB) Queued() int { return len(db.queue) }

// readers hands out read-only connections, the last used first, so that few
// stay warm when there is little to do.
type readers struct {
	path string
	free chan struct{} // a token for each connection that is handed out

	waits, waited atomic.Int64 // how often no token was free, and the time that cost

	mu     sync.Mutex
	idle   []*sqlite.Conn
	closed bool
}

func (r *readers) take(ctx context.Context) (*sqlite.Conn, func(), error) {
	if err := r.token(ctx); err != nil {
		return nil, nil, err
	}
	conn, err := r.pop()
	if err != nil {
		<-r.free
		return nil, nil, err
	}
	return conn, func() { r.push(conn) }, nil
}

// token takes one of the tokens, waiting where there is none.
func (r *readers) token(ctx context.Context) error {
	select {
	case r.free <- struct{}{}:
		return nil
	default:
	}
	start := time.Now()
	defer func() {
		r.waits.Add(1)
		r.waited.Add(int64(time.Since(start)))
	}()
	select {
	case r.free <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.Wrap(fault.Unavailable, "no database connection became free in time", ctx.Err())
	}
}

func (r *readers) pop() (*sqlite.Conn, error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, errClosed
	}
	if n := len(r.idle); n > 0 {
		conn := r.idle[n-1]
		r.idle = r.idle[:n-1]
		r.mu.Unlock()
		return conn, nil
	}
	r.mu.Unlock()
	conn, err := openConn(r.path, sqlite.OpenReadOnly)
	return conn, classify(err)
}

func (r *readers) push(conn *sqlite.Conn) {
	r.mu.Lock()
	keep := !r.closed && conn.AutocommitEnabled()
	if keep {
		r.idle = append(r.idle, conn)
	}
	r.mu.Unlock()
	if !keep {
		_ = conn.Close()
	}
	<-r.free
}

func (r *readers) close() error {
	r.mu.Lock()
	idle := r.idle
	r.idle, r.closed = nil, true
	r.mu.Unlock()
	var errs []error
	for _, conn := range idle {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}
