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

	"holdfast/internal/errcode"
	"holdfast/internal/work"
)

// Read runs fn on a snapshot. fn must not write. It waits for a free reader until ctx is done. name is for metrics.
func (db *DB) Read(ctx context.Context, name string, fn func(*sqlite.Conn) error) error {
	return db.read(ctx, name, false, fn)
}

// ReadOne is like Read, but for a single statement that runs once.
func (db *DB) ReadOne(ctx context.Context, name string, fn func(*sqlite.Conn) error) error {
	return db.read(ctx, name, true, fn)
}

// read is Read, or with single ReadOne, which needs no transaction because a statement has its own snapshot.
func (db *DB) read(ctx context.Context, name string, single bool, fn func(*sqlite.Conn) error) error {
	start := time.Now()
	err := db.readOn(ctx, single, fn)
	db.observe(name, start, err)
	return err
}

func (db *DB) readOn(ctx context.Context, single bool, fn func(*sqlite.Conn) error) error {
	s, err := db.snapshot(ctx, single)
	if err != nil {
		return err
	}
	s.broken = true
	defer s.Release()
	err = s.Read(fn)
	s.broken = false
	return err
}

// Snapshot is a connection with an open read transaction. It is not safe for concurrent use.
type Snapshot struct {
	conn    *sqlite.Conn // until Release; only Read hands it out, because its errors have no errcode
	readers *readers
	working bool // counts as a read in progress, until Stream
	single  bool // without BEGIN
	broken  bool // fn did not return, e.g. after a panic, so a statement and its snapshot may be open
}

// Snapshot begins a read transaction. Release it soon: until then the WAL grows and a reader is in use.
func (db *DB) Snapshot(ctx context.Context) (*Snapshot, error) { return db.snapshot(ctx, false) }

func (db *DB) snapshot(ctx context.Context, single bool) (*Snapshot, error) {
	s := &Snapshot{readers: &db.readers, working: true, single: single}
	if err := s.readers.wait(ctx, s.readers.working); err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
		s.Stream()
		return nil, err
	}
	return s, nil
}

// begin takes a connection and begins a transaction on it.
func (s *Snapshot) begin(ctx context.Context) (err error) {
	if s.conn, err = s.readers.take(ctx); err != nil || s.single {
		return err
	}
	if err := sqlitex.Execute(s.conn, `BEGIN`, nil); err != nil {
		s.readers.giveBack(s.conn)
		return classify(err)
	}
	return nil
}

// Read calls fn with the connection, for reads only, and gives its error an errcode, as DB.Read does.
func (s *Snapshot) Read(fn func(*sqlite.Conn) error) error { return classify(fn(s.conn)) }

// Stream releases the read slot for another read, because from now on mainly the client determines the pace.
func (s *Snapshot) Stream() {
	if s.working {
		s.working = false
		<-s.readers.working
	}
}

// Release ends the transaction and gives the connection back.
func (s *Snapshot) Release() {
	if !s.single {
		// The connection is checked before reuse.
		_ = sqlitex.Execute(s.conn, `ROLLBACK`, nil)
	}
	if s.broken {
		s.readers.discard(s.conn)
	} else {
		s.readers.giveBack(s.conn)
	}
	s.Stream()
}

// Connections returns how many readers are in use and idle, and how many there may be.
func (db *DB) Connections() (active, idle, maximum int) {
	r := &db.readers
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.free), len(r.idle), cap(r.free)
}

// Waits returns how many reads waited for a reader, and how long all together.
func (db *DB) Waits() (n int64, total time.Duration) {
	return db.readers.waits.Load(), time.Duration(db.readers.waited.Load())
}

// Queued returns how many writes wait for the writer, without those in its group.
func (db *DB) Queued() int { return len(db.queue) }

// readers hands out the most recently used read-only connection first, so that few stay open under low load.
type readers struct {
	path    string
	free    chan struct{} // a token for each connection in use
	working chan struct{} // a token for each read in progress that does not stream

	waits, waited atomic.Int64

	mu     sync.Mutex
	idle   []*sqlite.Conn
	closed bool
}

// newReaders allows a few non-streaming reads per processor, because they are CPU bound and use memory.
func newReaders(path string, maximum int) readers {
	working := min(maximum, max(8, 4*runtime.GOMAXPROCS(0)))
	return readers{path: path, free: make(chan struct{}, maximum), working: make(chan struct{}, working)}
}

// take returns a connection, and waits for it.
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

// wait puts a token into the channel. The wait does not count as the request's work.
func (r *readers) wait(ctx context.Context, tokens chan struct{}) error {
	select {
	case tokens <- struct{}{}:
		return nil
	default:
	}
	start, meter := time.Now(), work.Of(ctx)
	meter.Wait()
	defer func() {
		meter.Resume()
		r.waits.Add(1)
		r.waited.Add(int64(time.Since(start)))
	}()
	select {
	case tokens <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errcode.Wrap(errcode.Unavailable, "no database connection became free in time", ctx.Err())
	}
}

// pop returns an idle connection, or opens one.
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

// giveBack keeps the connection, unless a transaction is still open.
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

// discard closes a connection whose state is unknown.
func (r *readers) discard(conn *sqlite.Conn) {
	_ = conn.Close()
	<-r.free
}

// close closes idle connections; those in use are closed when they are given back.
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
