package sqlite

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/buckets"
	"holdfast/internal/db/sqlitedb"
)

const (
	sqlLeased = `SELECT holder, process, expires FROM manta_bucket_lease WHERE name = ?`
	sqlLease  = `INSERT OR REPLACE INTO manta_bucket_lease (name, holder, process, expires) VALUES (?, ?, ?, ?)`
	sqlEnd    = `DELETE FROM manta_bucket_lease WHERE name = ? AND holder = ?`
)

// Lease implements buckets.Leases.
func (s *Store) Lease(ctx context.Context, l buckets.Lease) (has buckets.Lease, err error) {
	err = s.db.Write(ctx, "lease", func(c *sqlite.Conn) error {
		now := time.Now()
		other, found, err := sqlitedb.QueryRow(c, sqlLeased, func(r *sqlite.Stmt) buckets.Lease {
			return buckets.Lease{Name: l.Name, Holder: r.ColumnText(0), Process: r.ColumnText(1), Left: time.UnixMicro(r.ColumnInt64(2)).Sub(now)}
		}, l.Name)
		if err != nil {
			return err
		}
		// If a lease ends later than a new lease would, it was granted before the clock was set back.
		if has = other; found && other.Holder != l.Holder && other.Left > 0 && other.Left <= l.Left {
			return nil
		}
		has = l
		return sqlitedb.Exec(c, sqlLease, l.Name, l.Holder, l.Process, now.Add(l.Left).UnixMicro())
	})
	return has, err
}

// EndLease implements buckets.Leases.
func (s *Store) EndLease(ctx context.Context, name, holder string) error {
	return s.db.Write(ctx, "end_lease", func(c *sqlite.Conn) error { return sqlitedb.Exec(c, sqlEnd, name, holder) })
}
