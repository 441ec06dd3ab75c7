package sqlitedb

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/errcode"
)

// Follower lets a replica read a file's write-ahead log (WAL). Its read transaction keeps SQLite from overwriting
// unread frames, and it checkpoints instead of the writer. It is not safe for concurrent use. Callers compare the
// WAL's salts: another process may checkpoint all frames just before the read transaction.
type Follower struct {
	db      *DB
	held    *sqlite.Conn // its transaction protects unread frames
	next    *sqlite.Conn // takes over in Hold
	control *sqlite.Conn // checkpoints; has no transaction
}

// Log counts WAL frames.
type Log struct {
	Committed    int // frames that committed transactions wrote
	Checkpointed int // frames that are in the database file, too
}

// Follow returns a follower. Close it before the DB.
func (db *DB) Follow(ctx context.Context) (f *Follower, err error) {
	f = &Follower{db: db}
	for _, c := range []struct {
		conn **sqlite.Conn
		mode sqlite.OpenFlags
	}{{&f.held, sqlite.OpenReadOnly}, {&f.next, sqlite.OpenReadOnly}, {&f.control, sqlite.OpenReadWrite}} {
		if *c.conn, err = openConn(db.opts.Path, c.mode); err != nil {
			return nil, errors.Join(classify(err), f.closeConns())
		}
	}
	f.control.SetBusyTimeout(0)
	if err := db.between(ctx, func(w *sqlite.Conn) error {
		return sqlitex.ExecuteTransient(w, `PRAGMA wal_autocheckpoint = 0`, nil)
	}); err != nil {
		return nil, errors.Join(err, f.closeConns())
	}
	return f, nil
}

// Close ends the read transaction; the writer checkpoints again.
func (f *Follower) Close() error {
	err := f.closeConns()
	again := f.db.between(context.Background(), func(w *sqlite.Conn) error {
		return sqlitex.ExecuteTransient(w, autoCheckpoint, nil)
	})
	if errors.Is(again, errClosed) {
		again = nil // the writer checkpointed everything
	}
	return errors.Join(err, again)
}

func (f *Follower) closeConns() (err error) {
	for _, c := range []**sqlite.Conn{&f.held, &f.next, &f.control} {
		if *c != nil {
			err = errors.Join(err, (*c).Close())
			*c = nil
		}
	}
	return classify(err)
}

// Path returns Options.Path.
func (db *DB) Path() string { return db.opts.Path }

// Path returns the file name of the WAL.
func (f *Follower) Path() string { return f.db.opts.Path + "-wal" }

// Name returns the database's file name without its folder.
func (f *Follower) Name() string { return filepath.Base(f.db.opts.Path) }

// Hold begins a new read transaction before it ends the previous one.
func (f *Follower) Hold() error {
	if err := begin(f.next); err != nil {
		return err
	}
	err := f.Release()
	f.held, f.next = f.next, f.held
	return err
}

// begin begins a transaction and reads, because SQLite takes the snapshot at the first read.
func begin(c *sqlite.Conn) error {
	err := sqlitex.Execute(c, `BEGIN`, nil)
	if err == nil {
		_, _, err = QueryRow(c, `SELECT count(*) FROM sqlite_schema`, func(*sqlite.Stmt) struct{} { return struct{}{} })
	}
	if err != nil && !c.AutocommitEnabled() {
		err = errors.Join(err, sqlitex.Execute(c, `ROLLBACK`, nil))
	}
	return classify(err)
}

// Release ends the read transaction, so that the WAL may be overwritten.
func (f *Follower) Release() error {
	if f.held.AutocommitEnabled() {
		return nil
	}
	return classify(sqlitex.Execute(f.held, `ROLLBACK`, nil))
}

// Log retries while a commit changes the WAL's index, which takes microseconds unless its thread loses the CPU.
// After logSpins tries it waits a millisecond before each further try, up to logTries.
const (
	// Log retries while a commit changes the WAL's index, which takes microseconds unless its thread loses the CPU.
	// After logSpins tries it waits a millisecond before each further try, up to logTries.
	logSpins = 100
	logTries = 5000
)

func (f *Follower) Log() (l Log, err error) {
	for try := range logTries {
		var counted bool
		if l, counted, err = f.checkpoint(`PRAGMA wal_checkpoint(NOOP)`); counted || err != nil {
			return l, err
		}
		if try < logSpins {
			runtime.Gosched()
		} else {
			time.Sleep(time.Millisecond)
		}
	}
	return l, errcode.New(errcode.Unavailable, "SQLite cannot count the frames of the WAL: commits change its index all the time")
}

// Checkpoint writes frames to the database file unless a reader needs the old pages. It never waits: if another
// process checkpoints, it returns zeros.
func (f *Follower) Checkpoint() (Log, error) {
	l, _, err := f.checkpoint(`PRAGMA wal_checkpoint(PASSIVE)`)
	return l, err
}

// checkpoint runs a checkpoint pragma. counted is false if the WAL's index was changing.
func (f *Follower) checkpoint(pragma string) (l Log, counted bool, err error) {
	_, _, err = QueryRow(f.control, pragma, func(s *sqlite.Stmt) struct{} {
		counted = s.ColumnInt(0) == 0 || s.ColumnInt(1) >= 0
		l = Log{Committed: max(0, s.ColumnInt(1)), Checkpointed: max(0, s.ColumnInt(2))}
		return struct{}{}
	})
	return l, counted, classify(err)
}

// Pages calls fn with each page at the read transaction, numbered from 1. fn must not keep data.
func (f *Follower) Pages(ctx context.Context, fn func(number uint32, data []byte) error) error {
	return (&Frozen{f.held}).Pages(ctx, fn)
}

// Size returns the number of pages and the bytes per page.
func (f *Follower) Size() (pages, bytes uint32, err error) { return (&Frozen{f.held}).Size() }

// Paused runs fn while the writer pauses. Other processes can still write.
func (f *Follower) Paused(ctx context.Context, fn func() error) error {
	return f.db.between(ctx, func(*sqlite.Conn) error { return fn() })
}

// Touch changes page 1's change counter, so that the WAL contains a frame that is not in the database file.
func (f *Follower) Touch(ctx context.Context) error {
	return f.db.between(ctx, func(w *sqlite.Conn) error {
		if err := sqlitex.Execute(w, `BEGIN IMMEDIATE`, nil); err != nil {
			return err
		}
		return touch(w)
	})
}

// Restart makes SQLite restart the WAL at its first frame, unless a reader needs the WAL or another process wrote. If
// it returns true and the WAL's first salt grew by 1, no frame was lost.
//
// captured reads the WAL to its end and returns its frame count. intact reports whether the WAL is unchanged.
func (f *Follower) Restart(ctx context.Context, captured func() (int, error), intact func() bool) (done bool, err error) {
	err = f.db.between(ctx, func(w *sqlite.Conn) error {
		frames, err := captured()
		if err != nil {
			return err
		}
		if err := f.Hold(); err != nil {
			return err
		}
		if l, err := f.Checkpoint(); err != nil || l.Committed != frames || l.Checkpointed != frames {
			return err
		}
		// All frames are in the file, so this transaction reads nothing from the WAL, and SQLite restarts the WAL at
		// commit. The read transaction keeps other processes from doing so earlier.
		if err := sqlitex.Execute(w, `BEGIN IMMEDIATE`, nil); err != nil {
			if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultBusy {
				return nil
			}
			return err
		}
		if l, err := f.Log(); err != nil || l.Committed != frames || !intact() {
			return errors.Join(err, sqlitex.Execute(w, `ROLLBACK`, nil))
		}
		done = true
		return f.restart(w)
	})
	return done && err == nil, err
}

// restart commits a transaction that restarts the WAL. Its read transaction does not read from the WAL, either. While
// it lasts, no process can checkpoint, so the WAL cannot restart again before its first frames are protected.
func (f *Follower) restart(w *sqlite.Conn) error {
	if err := begin(f.next); err != nil {
		return errors.Join(err, sqlitex.Execute(w, `ROLLBACK`, nil))
	}
	err := f.Release()
	if err == nil {
		err = touch(w)
	}
	if err == nil {
		err = begin(f.held)
	}
	if !f.next.AutocommitEnabled() {
		err = errors.Join(err, sqlitex.Execute(f.next, `ROLLBACK`, nil))
	}
	return err
}

// touch commits a transaction that changes only page 1.
func touch(w *sqlite.Conn) error {
	version, _, err := QueryRow(w, `PRAGMA user_version`, func(s *sqlite.Stmt) int64 { return s.ColumnInt64(0) })
	if err == nil {
		err = sqlitex.ExecuteTransient(w, fmt.Sprintf(`PRAGMA user_version = %d`, version), nil)
	}
	if err == nil {
		err = sqlitex.Execute(w, `COMMIT`, nil)
	}
	if err != nil && !w.AutocommitEnabled() {
		err = errors.Join(err, sqlitex.Execute(w, `ROLLBACK`, nil))
	}
	return err
}

// between runs fn on the writer's connection between two groups, outside a transaction.
func (db *DB) between(ctx context.Context, fn func(*sqlite.Conn) error) error {
	done := make(chan error, 1)
	call := func(w *sqlite.Conn) { done <- classify(fn(w)) }
	select {
	case db.calls <- call:
		return <-done
	case <-db.stopped:
		return errClosed
	case <-ctx.Done():
		return errcode.Wrap(errcode.Unavailable, "the call ended before its turn", ctx.Err())
	}
}
