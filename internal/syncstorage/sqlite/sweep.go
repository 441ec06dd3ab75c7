package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
)

var errStopped = errcode.New(errcode.Internal, "the reader stopped")

// Sweep implements syncstorage.Store.
func (s *Store) Sweep(ctx context.Context, now ss.Timestamp, limit int) (n int, err error) {
	err = s.db.Write(ctx, "sync.sweep", func(c *sqlite.Conn) error {
		if n, err = sweepRecords(c, now, limit); err != nil {
			return err
		}
		for n < limit {
			swept, err := sweepBatch(c, now, limit-n)
			if err != nil {
				return err
			}
			if swept == 0 {
				return nil
			}
			n += swept
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// sweepRecords deletes expired records and takes them off the counters. It deletes no collection.
func sweepRecords(c *sqlite.Conn, now ss.Timestamp, limit int) (int, error) {
	type record struct {
		user, coll int64
		id         string
		bytes      int64
	}
	var due []record
	err := sqlitedb.ForEach(c, sqlExpiredBSOs, func(r *sqlite.Stmt) error {
		due = append(due, record{r.ColumnInt64(0), r.ColumnInt64(1), r.ColumnText(2), r.ColumnInt64(3)})
		return nil
	}, now, limit)
	if err != nil {
		return 0, err
	}
	for _, r := range due {
		if err := sqlitedb.Exec(c, sqlDeleteBSO, r.user, r.coll, r.id); err != nil {
			return 0, err
		}
		if err := sqlitedb.Exec(c, sqlUncount, 1, r.bytes, r.user, r.coll); err != nil {
			return 0, err
		}
	}
	return len(due), nil
}

// sweepBatch removes an expired batch's records, the batch, and a collection that existed only for it. A partly
// removed batch must stay expired even if the clock is set back, so its expiry becomes 0.
func sweepBatch(c *sqlite.Conn, now ss.Timestamp, limit int) (int, error) {
	type batch struct {
		user, coll int64
		id         string
	}
	b, found, err := sqlitedb.QueryRow(c, sqlExpiredBatch, func(r *sqlite.Stmt) batch {
		return batch{r.ColumnInt64(0), r.ColumnInt64(1), r.ColumnText(2)}
	}, now)
	if err != nil || !found {
		return 0, err
	}
	if err := sqlitedb.Exec(c, sqlUnstage, b.user, b.coll, b.id, limit); err != nil {
		return 0, err
	}
	n := c.Changes()
	if n == limit {
		return n, sqlitedb.Exec(c, sqlEndBatch, b.user, b.coll, b.id)
	}
	if err := sqlitedb.Exec(c, sqlDeleteBatch, b.user, b.coll, b.id); err != nil {
		return 0, err
	}
	return n + 1, sqlitedb.Exec(c, sqlDeleteHidden, b.user, b.coll)
}

// EndBatches implements syncstorage.AdminStore.
func (s *Store) EndBatches(ctx context.Context) error {
	return s.db.Write(ctx, "sync.end_batches", func(c *sqlite.Conn) error { return sqlitedb.Exec(c, sqlEndBatches) })
}
