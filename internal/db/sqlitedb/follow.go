package sqlitedb

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/errcode"
)

// Follower lets a replica read the write-ahead log (WAL) of a file. It holds a read
// transaction, which prevents SQLite from overwriting frames that were not read, and it
// checkpoints the file instead of the writer. It is not safe for concurrent use.
//
// The read transaction does not protect frames if another process checkpointed all of
// them just before it began. So a caller compares the salts of the WAL.
type Follower struct {
	db      *DB
	held    *sqlite.Conn // has the read transaction
	next    *sqlite.Conn // begins the next one before held ends its own
	control *sqlite.Conn // checkpoints; without a transaction
}

// Log is the number of frames in the WAL.
type Log struct {
	Committed    int // frames of committed transactions
	Checkpointed int // frames that are in the database file
}

// Follow returns a follower of the file. Close it before the DB.
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

// Close ends the read transaction. From then on the writer checkpoints by itself.
func (f *Follower) Close() error {
	err := f.closeConns()
	again := f.db.between(context.Background(), func(w *sqlite.Conn) error {
		return sqlitex.ExecuteTransient(w, autoCheckpoint, nil)
	})
	if errors.Is(again, errClosed) {
		again = nil // the writer has checkpointed everything
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

// Path returns the path of the file.
func (db *DB) Path() string { return db.opts.Path }

// Path returns the path of the WAL.
func (f *Follower) Path() string { return f.db.opts.Path + "-wal" }

// Name returns the name of the database file.
func (f *Follower) Name() string { return filepath.Base(f.db.opts.Path) }

// Hold begins a new read transaction and then ends the former one.
func (f *Follower) Hold() error {
	if err := begin(f.next); err != nil {
		return err
	}
	err := f.Release()
	f.held, f.next = f.next, f.held
	return err
}

// begin begins a read transaction. SQLite takes the snapshot at the first read.
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

// Release ends the read transaction.
func (f *Follower) Release() error {
	if f.held.AutocommitEnabled() {
		return nil
	}
	return classify(sqlitex.Execute(f.held, `ROLLBACK`, nil))
}

// Log returns the number of frames in the WAL.
func (f *Follower) Log() (Log, error) { return f.checkpoint(`PRAGMA wal_checkpoint(NOOP)`) }

// Checkpoint writes frames to the database file, as far as no reader needs the former
// pages. It does not wait for anything.
func (f *Follower) Checkpoint() (Log, error) {
	return f.checkpoint(`PRAGMA wal_checkpoint(PASSIVE)`)
}

func (f *Follower) checkpoint(pragma string) (Log, error) {
	l, _, err := QueryRow(f.control, pragma, func(s *sqlite.Stmt) Log {
		return Log{Committed: max(0, s.ColumnInt(1)), Checkpointed: max(0, s.ColumnInt(2))}
	})
	return l, classify(err)
}

// Pages calls fn for every page of the file; see Frozen.
func (f *Follower) Pages(ctx context.Context, fn func(number uint32, data []byte) error) error {
	return (&Frozen{f.held}).Pages(ctx, fn)
}

// Size returns the size of the file; see Frozen.
func (f *Follower) Size() (pages, bytes uint32, err error) { return (&Frozen{f.held}).Size() }

// Paused runs fn while the writer pauses. Only another process can write meanwhile.
func (f *Follower) Paused(ctx context.Context, fn func() error) error {
	return f.db.between(ctx, func(*sqlite.Conn) error { return fn() })
}

// Touch commits a transaction that changes nothing but the counter of changes in page 1,
// so that the WAL has a frame that is not in the database file.
func (f *Follower) Touch(ctx context.Context) error {
	return f.db.between(ctx, func(w *sqlite.Conn) error {
		if err := sqlitex.Execute(w, `BEGIN IMMEDIATE`, nil); err != nil {
			return err
		}
		return touch(w)
	})
}

// Restart makes SQLite begin the WAL again from its first frame. It does nothing if a
// reader still needs the WAL, or another process has written. If it returns true and the
// first salt of the WAL is larger by one, no frame was lost.
//
// captured reads the WAL to its end and returns the number of frames it has read. intact
// reports whether the WAL still is the one that was read.
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
		// With all frames in the file, this transaction reads nothing from the WAL, so that
		// SQLite begins the WAL again when it commits. The read transaction prevents
		// another process from doing so before.
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

// restart commits a transaction of the writer that begins the WAL again. It begins a read
// transaction that reads nothing from the WAL, either: while there is one, no process can
// write a frame to the database file. So the WAL cannot begin once more before a read transaction holds
// its first frames.
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

// touch writes page 1 without a change, and commits.
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

// between runs fn on the connection of the writer, between two groups of writes.
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
