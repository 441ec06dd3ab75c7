package sqlitedb

import (
	"context"
	"fmt"
	"runtime"
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
	alone  bool
	judge  func(*sqlite.Conn) error // nil: fn may refuse
	fn     func(*sqlite.Conn) error
	err    error
	done   chan struct{}
}

// Write runs fn in the transaction of the next group and returns when that is
// durable. fn's error undoes what fn did and nothing else. When
// the commit fails, every caller of the group gets the error and nothing of
// the group is there.
//
// A ctx that ends before fn has started takes the step out of the group; once
// started it is not interrupted, because SQLite would then undo the whole
// group. fn must therefore be bounded and must not wait for anything.
func (db *DB) Write(ctx context.Context, name string, fn func(*sqlite.Conn) error) error {
	return db.write(&step{ctx: ctx, name: name, fn: fn})
}

// WriteAlone is Write for a step that may change much: it has a transaction of
// its own. To undo a part of a transaction the engine keeps in memory what each
// changed page was before; to undo the whole, nothing.
func (db *DB) WriteAlone(ctx context.Context, name string, fn func(*sqlite.Conn) error) error {
	return db.write(&step{ctx: ctx, name: name, alone: true, fn: fn})
}

// WriteChecked is Write for a step in two parts: judge reads and may refuse; write
// does what was judged, and fails only where the engine does. It has no
// savepoint, for which the engine keeps a copy of every page that a step changes:
// half of the work of a small step. When write does fail, the group is undone and
// all its steps run again, with savepoints: on a file with such steps every step
// must bear to run twice.
func (db *DB) WriteChecked(ctx context.Context, name string, judge, write func(*sqlite.Conn) error) error {
	return db.write(&step{ctx: ctx, name: name, judge: judge, fn: write})
}

func (db *DB) write(s *step) error {
	s.queued, s.done = time.Now(), make(chan struct{})
	err := db.enqueue(s)
	if err == nil {
		err = s.err
	}
	db.observe(s.name, s.queued, err)
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
	next  *step // taken from the queue, but to have a group of its own
}

func (w *writer) run() {
	defer close(w.db.stopped)
	for {
		select {
		case s := <-w.db.queue:
			w.serveAll(s)
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
			w.serveAll(s)
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

func (w *writer) serveAll(s *step) {
	for s != nil {
		w.serve(s)
		s, w.next = w.next, nil
	}
}

// serve runs first and whatever else is waiting as one transaction.
func (w *writer) serve(first *step) {
	w.group = w.group[:0]
	observed := Group{Wait: time.Since(first.queued)}
	err := w.begin()
	deadline := time.Now().Add(groupTime)
	for s := first; s != nil; s = w.another(deadline) {
		w.group = append(w.group, s)
		if err != nil {
			continue
		}
		switch {
		case s == first:
			s.err = w.runFirst(s)
		case s.judge != nil:
			err = w.runJudged(s)
		default:
			s.err = w.runStep(s)
		}
		if err == nil && w.conn.AutocommitEnabled() {
			// The engine gave up the transaction (disk full, I/O error): what
			// the others of the group did is undone too.
			err = givenUp(s.err)
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

// another is the next step of the group, or nil when that is to be committed.
func (w *writer) another(deadline time.Time) *step {
	if len(w.group) >= maxGroup || w.group[0].alone || time.Now().After(deadline) {
		return nil
	}
	s := w.waiting()
	if s == nil {
		// Callers that are about to queue a step run first: that costs less than
		// another commit. When there are none, this returns at once.
		runtime.Gosched()
		s = w.waiting()
	}
	if s != nil && s.alone {
		w.next = s
		return nil
	}
	return s
}

// waiting takes a step from the queue, if there is one.
func (w *writer) waiting() *step {
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

// runFirst runs a step before which nothing is in the transaction, so that it
// needs no savepoint.
func (w *writer) runFirst(s *step) error {
	err := w.whole(s)
	if err == nil || w.conn.AutocommitEnabled() {
		return err
	}
	if undo := w.exec(`ROLLBACK`); undo != nil {
		return undo
	}
	if again := w.exec(`BEGIN IMMEDIATE`); again != nil {
		return again
	}
	return err
}

// runJudged runs a step that is to need no undoing. What it returns is the end of
// the group.
func (w *writer) runJudged(s *step) error {
	if s.err = w.judge(s); s.err != nil {
		return nil //nolint:nilerr // it is the step's, which has changed nothing
	}
	if s.err = w.protect(s, s.fn); s.err == nil {
		return nil
	}
	if !w.conn.AutocommitEnabled() {
		if err := w.exec(`ROLLBACK`); err != nil {
			return err
		}
	}
	if err := w.exec(`BEGIN IMMEDIATE`); err != nil {
		return err
	}
	for _, s := range w.group {
		s.err = w.runStep(s)
		if w.conn.AutocommitEnabled() {
			return givenUp(s.err)
		}
	}
	return nil
}

// runStep runs one step between savepoints.
func (w *writer) runStep(s *step) (err error) {
	if err := w.exec(`SAVEPOINT step`); err != nil {
		return err
	}
	err = w.whole(s)
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

// givenUp is the error of a step with which the engine gave up the transaction.
func givenUp(err error) error {
	if err == nil {
		err = fault.New(fault.Unavailable, "the transaction was given up by the engine")
	}
	return err
}

// whole runs all of a step.
func (w *writer) whole(s *step) error {
	if err := w.judge(s); err != nil {
		return err
	}
	return w.protect(s, s.fn)
}

// judge looks whether the caller still waits, and lets the step refuse.
func (w *writer) judge(s *step) error {
	if err := s.ctx.Err(); err != nil {
		return fault.Wrap(fault.Unavailable, "the request ended before its turn", err)
	}
	if s.judge == nil {
		return nil
	}
	return w.protect(s, s.judge)
}

// protect calls a step's function. A panic is the step's error: the writer must
// live on for the others.
func (w *writer) protect(s *step, fn func(*sqlite.Conn) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.Wrap(fault.Internal, "internal error",
				fmt.Errorf("panic in step %s: %v\n%s", s.name, p, debug.Stack()))
		}
	}()
	if err := fn(w.conn); err != nil {
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
