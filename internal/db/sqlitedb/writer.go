package sqlitedb

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/fault"
)

const (
	// maxGroup bounds the steps that share a commit, and groupTime the work
	// of a group before it commits: both bound what one caller waits for
	// others.
	maxGroup  = 256
	groupTime = 20 * time.Millisecond
)

// Group is what a commit was shared by.
type Group struct {
	Steps  int
	Wait   time.Duration // of the first step, until its turn: the longest of the group
	Commit time.Duration // how long the engine took to make it durable; 0 when it came to none
}

// step is one caller's part of a group.
type step struct {
	ctx    context.Context
	name   string
	queued time.Time
	fn     func(*sqlite.Conn) error
	err    error
	done   chan struct{}
}

// Write runs fn in a savepoint of the next group's transaction and returns
// when that is durable. fn's error undoes what fn did and nothing else. When
// the commit fails, every caller of the group gets the error and nothing of
// the group is there.
//
// A ctx that ends before fn has started takes the step out of the group; once
// started it is not interrupted, because SQLite would then undo the whole
// group. fn must therefore be bounded and must not wait for anything.
func (db *DB) Write(ctx context.Context, name string, fn func(*sqlite.Conn) error) error {
	start := time.Now()
	s := &step{ctx: ctx, name: name, queued: start, fn: fn, done: make(chan struct{})}
	err := db.enqueue(s)
	if err == nil {
		err = s.err
	}
	db.observe(name, start, err)
	return err
}

// enqueue hands the step over and waits for it. The caller's variables belong
// to the writer until then, so ctx does not end the wait.
func (db *DB) enqueue(s *step) error {
	select {
	case <-db.closing:
		return errClosed
	default:
	}
	select {
	case db.queue <- s:
	case <-s.ctx.Done():
		return fault.Wrap(fault.Unavailable, "the request ended before its turn", s.ctx.Err())
	case <-db.closing:
		return errClosed
	}
	select {
	case <-s.done:
		return nil
	case <-db.stopped:
	}
	// The writer has ended; it may have served the step as its last.
	select {
	case <-s.done:
		return nil
	default:
		return errClosed
	}
}

// writer owns the only connection that writes.
type writer struct {
	db    *DB
	conn  *sqlite.Conn
	group []*step
}

func (w *writer) run() {
	defer close(w.db.stopped)
	for {
		select {
		case s := <-w.db.queue:
			w.serve(s)
		case <-w.db.closing:
			w.finish()
			return
		}
	}
}

// finish serves what was accepted before Close.
func (w *writer) finish() {
	for {
		select {
		case s := <-w.db.queue:
			w.serve(s)
		default:
			return
		}
	}
}

// close leaves a file without WAL where no other process has it open. A second
// call does nothing.
func (w *writer) close() error {
	if w.conn == nil {
		return nil
	}
	conn := w.conn
	w.conn = nil
	// A failing checkpoint loses nothing: the WAL is read at the next start.
	_ = sqlitex.Execute(conn, `PRAGMA wal_checkpoint(TRUNCATE)`, nil)
	return conn.Close()
}

// serve runs first and whatever else is waiting as one transaction.
func (w *writer) serve(first *step) {
	w.group = w.group[:0]
	observed := Group{Wait: time.Since(first.queued)}
	err := w.begin()
	deadline := time.Now().Add(groupTime)
	for s := first; s != nil; s = w.next(deadline) {
		w.group = append(w.group, s)
		if err != nil {
			continue
		}
		s.err = w.runStep(s)
		if w.conn.AutocommitEnabled() {
			// The engine gave up the transaction (disk full, I/O error): what
			// the others of the group did is undone too.
			err = s.err
			if err == nil {
				err = fault.New(fault.Unavailable, "the transaction was given up by the engine")
			}
		}
	}
	if err == nil {
		start := time.Now()
		err = w.commit()
		observed.Commit = time.Since(start)
	}
	if err != nil && !w.conn.AutocommitEnabled() {
		_ = w.exec(`ROLLBACK`)
	}
	// Before the callers go on, who may ask for what was observed.
	if w.db.opts.ObserveGroup != nil {
		observed.Steps = len(w.group)
		w.db.opts.ObserveGroup(observed)
	}
	for _, s := range w.group {
		if err != nil {
			s.err = err
		}
		close(s.done)
	}
	clear(w.group)
}

// next is the next waiting step, or nil when the group is to be committed.
func (w *writer) next(deadline time.Time) *step {
	if len(w.group) >= maxGroup || time.Now().After(deadline) {
		return nil
	}
	select {
	case s := <-w.db.queue:
		return s
	default:
		return nil
	}
}

func (w *writer) begin() error {
	if err := w.fault("begin"); err != nil {
		return err
	}
	return w.exec(`BEGIN IMMEDIATE`)
}

func (w *writer) commit() error {
	if err := w.fault("commit"); err != nil {
		return err
	}
	return w.exec(`COMMIT`)
}

// runStep runs one step between savepoints. A panic of the step is the step's
// error: the writer must live on for the others.
func (w *writer) runStep(s *step) (err error) {
	if err := s.ctx.Err(); err != nil {
		return fault.Wrap(fault.Unavailable, "the request ended before its turn", err)
	}
	if err := w.exec(`SAVEPOINT step`); err != nil {
		return err
	}
	err = w.protect(s)
	if w.conn.AutocommitEnabled() {
		return err
	}
	if err != nil {
		if undo := w.exec(`ROLLBACK TO step`); undo != nil {
			// What the step did cannot be told from the others': give up all.
			_ = w.exec(`ROLLBACK`)
			return undo
		}
	}
	if release := w.exec(`RELEASE step`); release != nil {
		_ = w.exec(`ROLLBACK`)
		return release
	}
	return err
}

func (w *writer) protect(s *step) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.Wrap(fault.Internal, "internal error",
				fmt.Errorf("panic in step %s: %v\n%s", s.name, p, debug.Stack()))
		}
	}()
	if err := s.fn(w.conn); err != nil {
		return classify(err)
	}
	return w.fault("step " + s.name)
}

func (w *writer) fault(point string) error {
	if w.db.opts.Fault == nil {
		return nil
	}
	return classify(w.db.opts.Fault(point))
}

func (w *writer) exec(sql string) error {
	return classify(sqlitex.Execute(w.conn, sql, nil))
}
