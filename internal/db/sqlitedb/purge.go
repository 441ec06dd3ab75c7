package sqlitedb

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/errcode"
)

const (
	// purgeWait limits the wait for readers, once for rewriting and once for emptying the WAL.
	purgeWait = 30 * time.Second

	// purgePatience limits how long an attempt blocks writers; purgePause separates attempts.
	purgePatience = 100 * time.Millisecond
	purgePause    = 200 * time.Millisecond
)

// ErrPurge means that a reader needed an earlier state for too long.
var ErrPurge = errcode.New(errcode.Unavailable, "a reader, such as a backup or a copy, still needs the deleted content: repeat it when the reader has ended")

// Purge rewrites the file and empties the WAL, so that neither contains deleted data. Secure_delete would not
// suffice: when SQLite moves rows to another page, the old page keeps copies. While Purge runs, writers wait and may
// time out. Purge itself waits for earlier readers.
func (db *DB) Purge(ctx context.Context) error {
	conn, err := openConn(db.opts.Path, sqlite.OpenReadWrite)
	if err != nil {
		return classify(err)
	}
	defer func() { _ = conn.Close() }()
	conn.SetBusyTimeout(purgePatience)
	conn.SetInterrupt(ctx.Done())
	// The file may be larger than memory.
	if err := sqlitex.ExecuteTransient(conn, `PRAGMA temp_store = FILE`, nil); err != nil {
		return classify(err)
	}
	waited, cancel := context.WithTimeout(ctx, purgeWait)
	defer cancel()
	if err := untilIdle(waited, func() (isBusy bool, err error) {
		return false, sqlitex.ExecuteTransient(conn, `VACUUM`, nil)
	}); err != nil {
		return err
	}
	waited, cancel = context.WithTimeout(ctx, purgeWait)
	defer cancel()
	return untilIdle(waited, func() (isBusy bool, err error) {
		err = sqlitex.ExecuteTransient(conn, `PRAGMA wal_checkpoint(TRUNCATE)`, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
			isBusy = s.ColumnBool(0)
			return nil
		}})
		return isBusy, err
	})
}

// untilIdle calls fn until nobody else needs the file, or returns ErrPurge.
func untilIdle(ctx context.Context, fn func() (isBusy bool, err error)) error {
	for {
		isBusy, err := fn()
		switch {
		case err != nil && sqlite.ErrCode(err).ToPrimary() != sqlite.ResultBusy && ctx.Err() == nil:
			return classify(err)
		case err == nil && !isBusy:
			return nil
		}
		select {
		case <-ctx.Done():
			return errcode.Wrap(errcode.Unavailable, ErrPurge.Message, ErrPurge)
		case <-time.After(purgePause):
		}
	}
}
