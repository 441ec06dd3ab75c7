package sqlitedb

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/errcode"
	"holdfast/internal/work"
)

const (
	// maxGroup and groupTime limit a commit, and thus how long callers wait for each other.
	maxGroup  = 256
	groupTime = 20 * time.Millisecond
)

// Group describes the writes that shared a commit.
type Group struct {
	Steps  int           // writes
	Wait   time.Duration // wait of the first write, i.e. the longest
	Commit time.Duration // 0 if nothing was committed
}

// pendingWrite is a write in the queue.
type pendingWrite struct {
	ctx    context.Context
	name   string
	queued time.Time
	alone  bool                     // in its own transaction
	check  func(*sqlite.Conn) error // if nil, fn may fail
	fn     func(*sqlite.Conn) error // writes
	err    error
	took   time.Duration // time in fn and check
	done   chan struct{} // closed when err is set
}

// Write runs fn in the next group's transaction and returns when the commit is durable. An error from fn rolls back
// only its own changes. If the commit fails, nothing is stored and every caller in the group gets the error.
//
// If ctx is done before fn starts, the write is dropped. Once fn runs, it is not interrupted, because this would roll
// back the group. So fn must be short and never block.
func (db *DB) Write(ctx context.Context, name string, fn func(*sqlite.Conn) error) error {
	return db.write(&pendingWrite{ctx: ctx, name: name, fn: fn})
}

// WriteAlone is like Write, but in a separate transaction. It is for large changes: to roll back part of a
// transaction, SQLite keeps each changed page's old contents in memory.
func (db *DB) WriteAlone(ctx context.Context, name string, fn func(*sqlite.Conn) error) error {
	return db.write(&pendingWrite{ctx: ctx, name: name, alone: true, fn: fn})
}

// WriteChecked is like Write, but split in two: check reads and may fail; write makes changes and fails only if
// SQLite fails. It needs no savepoint, for which SQLite copies every changed page, half the work of a small write. If
// write does fail, the whole group runs again with savepoints, so on such a file every function must be idempotent.
func (db *DB) WriteChecked(ctx context.Context, name string, check, write func(*sqlite.Conn) error) error {
	return db.write(&pendingWrite{ctx: ctx, name: name, check: check, fn: write})
}

// write queues a write and waits for its commit.
func (db *DB) write(s *pendingWrite) error {
	s.queued, s.done = time.Now(), make(chan struct{})
	meter := work.Of(s.ctx)
	meter.Wait()
	err := db.enqueue(s)
	meter.Resume()
	if err == nil {
		meter.Add(s.took)
		err = s.err
	}
	db.observe(s.name, s.queued, err)
	return err
}

// enqueue hands s to the writer and waits until it is done. Until then, the writer owns the caller's variables, so
// ctx does not end the wait.
func (db *DB) enqueue(s *pendingWrite) error {
	select {
	case <-db.closing:
		return errClosed
	default:
	}
	select {
	case db.queue <- s:
	case <-s.ctx.Done():
		return errcode.Wrap(errcode.Unavailable, "the request ended before its turn", s.ctx.Err())
	case <-db.closing:
		return errClosed
	}
	select {
	case <-s.done:
		return nil
	case <-db.stopped:
	}
	// The writer stopped. This write may have been its last.
	select {
	case <-s.done:
		return nil
	default:
		return errClosed
	}
}

// writer is the goroutine that runs all writes.
type writer struct {
	db    *DB
	conn  *sqlite.Conn
	group []*pendingWrite
	next  *pendingWrite // must run alone, after the group
}

// run serves the queue until Close.
func (w *writer) run() {
	defer close(w.db.stopped)
	for {
		select {
		case s := <-w.db.queue:
			w.serveAll(s)
		case call := <-w.db.calls:
			call(w.conn)
		case <-w.db.closing:
			w.finish()
			return
		}
	}
}

// finish serves the writes that were queued before Close.
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

// close closes the connection after run ended.
func (w *writer) close() error {
	if w.conn == nil {
		return nil
	}
	conn := w.conn
	w.conn = nil
	// A failed checkpoint loses nothing: the next start reads the WAL. The checkpoint must not wait for other
	// processes' readers, e.g. a server with a replica, because it would block their writes.
	_ = sqlitex.Execute(conn, `PRAGMA wal_checkpoint(TRUNCATE)`, nil)
	return conn.Close()
}

// serveAll serves a write's group, and a write that must run alone after it.
func (w *writer) serveAll(s *pendingWrite) {
	for s != nil {
		w.serve(s)
		s, w.next = w.next, nil
	}
}

// serve runs a group: it begins with first, takes what waits, and commits. The first write needs no savepoint: if it
// fails, the transaction begins again.
func (w *writer) serve(first *pendingWrite) {
	w.group = w.group[:0]
	observed := Group{Wait: time.Since(first.queued)}
	err := w.begin()
	deadline := time.Now().Add(groupTime)
	for s := first; s != nil; s = w.another(deadline) {
		w.group = append(w.group, s)
		if err != nil {
			continue
		}
		start := time.Now()
		switch {
		case s == first:
			s.err = w.runFirst(s)
		case s.check != nil:
			err = w.runChecked(s)
		default:
			s.err = w.runStep(s)
		}
		s.took = time.Since(start)
		if err == nil && w.conn.AutocommitEnabled() {
			// SQLite rolled back the whole group (disk full, I/O error).
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
	// This precedes the callers' return, because they may read the observations.
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

// another returns the next write for the group, or nil.
func (w *writer) another(deadline time.Time) *pendingWrite {
	if len(w.group) >= maxGroup || w.group[0].alone || time.Now().After(deadline) {
		return nil
	}
	s := w.waiting()
	if s == nil {
		// Let callers that are about to queue a write run first: this is cheaper than another commit, and returns
		// immediately if there are no such callers.
		runtime.Gosched()
		s = w.waiting()
	}
	if s != nil && s.alone {
		w.next = s
		return nil
	}
	return s
}

// waiting returns a queued write, or nil.
func (w *writer) waiting() *pendingWrite {
	select {
	case s := <-w.db.queue:
		return s
	default:
		return nil
	}
}

// begin begins the group's transaction.
func (w *writer) begin() error {
	if err := w.fault("begin"); err != nil {
		return err
	}
	return w.lock()
}

// turn is the interval of attempts to get a lock that another process holds, which under load is free for a
// fraction of a millisecond between groups. SQLite tries only ten times a second.
const turn = 200 * time.Microsecond

// lock begins a transaction that may write. It waits for other processes' locks.
func (w *writer) lock() error {
	for deadline := time.Now().Add(patience); ; time.Sleep(turn) {
		err := sqlitex.Execute(w.conn, `BEGIN IMMEDIATE`, nil)
		if sqlite.ErrCode(err).ToPrimary() != sqlite.ResultBusy || time.Now().After(deadline) {
			return classify(err)
		}
	}
}

func (w *writer) commit() error {
	if err := w.fault("commit"); err != nil {
		return err
	}
	return w.exec(`COMMIT`)
}

// runFirst runs a group's first write. If it fails, its transaction is replaced by another.
func (w *writer) runFirst(s *pendingWrite) error {
	err := w.whole(s)
	if err == nil || w.conn.AutocommitEnabled() {
		return err
	}
	if undo := w.exec(`ROLLBACK`); undo != nil {
		return undo
	}
	if again := w.lock(); again != nil {
		return again
	}
	return err
}

// runChecked runs a write without a savepoint; see WriteChecked. Its error means that the group failed.
func (w *writer) runChecked(s *pendingWrite) error {
	if s.err = w.check(s); s.err != nil {
		return nil //nolint:nilerr // the error is stored in the step, which has changed nothing
	}
	if s.err = w.protect(s, s.fn); s.err == nil {
		return nil
	}
	if !w.conn.AutocommitEnabled() {
		if err := w.exec(`ROLLBACK`); err != nil {
			return err
		}
	}
	if err := w.lock(); err != nil {
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

// runStep runs a write in a savepoint.
func (w *writer) runStep(s *pendingWrite) (err error) {
	if err := w.exec(`SAVEPOINT step`); err != nil {
		return err
	}
	err = w.whole(s)
	if w.conn.AutocommitEnabled() {
		return err
	}
	if err != nil {
		if undo := w.exec(`ROLLBACK TO step`); undo != nil {
			// This write's changes cannot be separated: roll back everything.
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

// givenUp returns the error for a group that SQLite rolled back.
func givenUp(err error) error {
	if err == nil {
		err = errcode.New(errcode.Unavailable, "SQLite rolled back the transaction")
	}
	return err
}

// whole runs a write's check and fn.
func (w *writer) whole(s *pendingWrite) error {
	if err := w.check(s); err != nil {
		return err
	}
	return w.protect(s, s.fn)
}

// check refuses a write whose caller gave up, and runs its check.
func (w *writer) check(s *pendingWrite) error {
	if err := s.ctx.Err(); err != nil {
		return errcode.Wrap(errcode.Unavailable, "the request ended before its turn", err)
	}
	if s.check == nil {
		return nil
	}
	return w.protect(s, s.check)
}

// protect runs fn and turns a panic into an error, because the writer must continue for others.
func (w *writer) protect(s *pendingWrite, fn func(*sqlite.Conn) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errcode.Wrap(errcode.Internal, "internal error",
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
