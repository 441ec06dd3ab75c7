package sqlite

import (
	"context"
	"encoding/json"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	ss "holdfast/internal/syncstorage"
)

// Totals implements syncstorage.AdminStore.
func (s *Store) Totals(ctx context.Context, owners []ss.Owner) ([]ss.Total, error) {
	users, err := ss.UIDs(owners)
	if err != nil {
		return nil, err
	}
	list, err := json.Marshal(users)
	if err != nil {
		return nil, err
	}
	totals := make([]ss.Total, len(owners))
	err = s.db.Read(ctx, "sync.totals", func(c *sqlite.Conn) error {
		for i := range totals {
			totals[i] = ss.Total{Counted: true}
		}
		return sqlitedb.ForEach(c, sqlTotals, func(r *sqlite.Stmt) error {
			t := &totals[r.ColumnInt(0)]
			t.Modified, t.Records, t.Bytes = ss.Timestamp(r.ColumnInt64(1)), r.ColumnInt64(2), r.ColumnInt64(3)
			t.Quota = optional(r, 4)
			return nil
		}, string(list))
	})
	if err != nil {
		return nil, err
	}
	return totals, nil
}

// Owners implements syncstorage.AdminStore.
func (s *Store) Owners(ctx context.Context, after ss.Owner, n int) (all []ss.Owner, err error) {
	err = s.db.Read(ctx, "sync.owners", func(c *sqlite.Conn) (err error) {
		all, err = sqlitedb.QueryAll(c, sqlOwners, func(r *sqlite.Stmt) ss.Owner { return ss.Owner{UID: r.ColumnInt64(0)} }, after.UID, n)
		return err
	})
	return all, err
}

// SetQuota implements syncstorage.AdminStore.
func (s *Store) SetQuota(ctx context.Context, o ss.Owner, bytes ss.Optional[int64]) error {
	if err := o.CheckUID(); err != nil {
		return err
	}
	if err := ss.CheckOwnQuota(bytes); err != nil {
		return err
	}
	return s.db.Write(ctx, "sync.set_quota", func(c *sqlite.Conn) error {
		if err := sqlitedb.Exec(c, sqlSetQuota, o.UID, orNull(bytes)); err != nil {
			return err
		}
		return sqlitedb.Exec(c, sqlDeleteNoQuota, o.UID)
	})
}
