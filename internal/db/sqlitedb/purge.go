package sqlitedb

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/fault"
)

const (
	// purgeWait is how long Purge waits for readers of earlier states.
	purgeWait = 30 * time.Second

	// purgePatience is how long one attempt blocks writers, and purgePause the time between two.
	purgePatience = 100 * time.Millisecond
	purgePause    = 200 * time.Millisecond
)

// ErrPurge is returned if a reader needs an earlier state of the file for too long.
var ErrPurge = fault.New(fault.Unavailable, "a reader, such as a backup or a copy, still needs the deleted content: repeat it when the reader has ended")

// Purge writes all commits into the file and empties the WAL, which has earlier versions of pages.
// With Options.Overwrite, what was deleted before is in neither of them when it returns. It waits
// for readers that began before; writers wait for short times only.
func (db *DB) Purge(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, purgeWait)
	defer cancel()
	conn, err := openConn(db.opts.Path, sqlite.OpenReadWrite)
	if err != nil {
		return classify(err)
	}
	defer func() { _ = conn.Close() }() // it has written nothing
	conn.SetBusyTimeout(purgePatience)
	for {
		isBusy := false
		err := sqlitex.ExecuteTransient(conn, `PRAGMA wal_checkpoint(TRUNCATE)`, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
			isBusy = s.ColumnBool(0)
			return nil
		}})
		switch {
		case err != nil && sqlite.ErrCode(err).ToPrimary() != sqlite.ResultBusy:
			return classify(err)
		case err == nil && !isBusy:
			return nil
		}
		select {
		case <-ctx.Done():
			return fault.Wrap(fault.Unavailable, ErrPurge.Message, ErrPurge)
		case <-time.After(purgePause):
		}
	}
}
