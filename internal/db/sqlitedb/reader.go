package sqlitedb

import (
	"context"
	"errors"
	"runtime"
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
	s, err := db.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer s.Release()
	return classify(fn(s.Conn))
}

// Snapshot is a connection with an open read transaction.
type Snapshot struct {
	Conn    *sqlite.Conn
	readers *readers
	working bool
}

// Snapshot begins a read transaction. It must be released soon: a snapshot keeps
// the WAL from being checkpointed past it, and readers are limited.
func (db *DB) Snapshot(ctx context.Context) (*Snapshot, error) {
	s := &Snapshot{readers: &db.readers, working: true}
	if err := s.readers.wait(ctx, s.readers.working); err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
		s.Stream()
		return nil, err
	}
	return s, nil
}

func (s *Snapshot) begin(ctx context.Context) (err error) {
	if s.Conn, err = s.readers.take(ctx); err != nil {
		return err
	}
	if err := sqlitex.Execute(s.Conn, `BEGIN`, nil); err != nil {
		s.readers.giveBack(s.Conn)
		return classify(err)
	}
	return nil
}

// Stream lets another read work beside this one, which from now on mostly waits for
// the client that takes what it reads.
func (s *Snapshot) Stream() {
	if s.working {
		s.working = false
		<-s.readers.working
	}
}

// Release ends the transaction and gives the connection back.
func (s *Snapshot) Release() {
	// Ending a read transaction cannot fail in a way that matters: the
	// connection is checked when it is handed out again.
	_ = sqlitex.Execute(s.Conn, `ROLLBACK`, nil)
	s.readers.giveBack(s.Conn)
	s.Stream()
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
	path    string
	free    chan struct{} // a token for each connection that is handed out
	working chan struct{} // a token for each read but those that stream

	waits, waited atomic.Int64 // how often no token was free, and the time that cost

	mu     sync.Mutex
	idle   []*sqlite.Conn
	closed bool
}

// newReaders returns readers of a file, most of them at once. Reads that do not
// wait for a client keep a processor busy: more of them than a few for each would
// only take more memory.
func newReaders(path string, most int) readers {
	working := min(most, max(8, 4*runtime.GOMAXPROCS(0)))
	return readers{path: path, free: make(chan struct{}, most), working: make(chan struct{}, working)}
}

// take hands out a connection.
func (r *readers) take(ctx context.Context) (*sqlite.Conn, error) {
	if err := r.wait(ctx, r.free); err != nil {
		return nil, err
	}
	conn, err := r.pop()
	if err != nil {
		<-r.free
	}
	return conn, err
}

// wait waits for a token.
func (r *readers) wait(ctx context.Context, tokens chan struct{}) error {
	select {
	case tokens <- struct{}{}:
		return nil
	default:
	}
	start := time.Now()
	defer func() {
		r.waits.Add(1)
		r.waited.Add(int64(time.Since(start)))
	}()
	select {
	case tokens <- struct{}{}:
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

// giveBack takes a connection back.
func (r *readers) giveBack(conn *sqlite.Conn) {
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
