package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	ext "holdfast/internal/extstorage"
)

// reclaim removes at most limit expired records, and says whether more are left.
func reclaim(c *sqlite.Conn, o ext.Owner, now ext.Moment, limit int) (n int, more bool, err error) {
	type expired struct {
		ns  ext.Namespace
		key ext.Key
		h   ext.Header
	}
	var due []expired
	err = sqlitedb.Each(c, sqlExpired, func(r *sqlite.Stmt) error {
		due = append(due, expired{ext.Namespace(r.ColumnText(0)), ext.Key(r.ColumnText(1)), scanHeader(r, 2)})
		return nil
	}, o.Tenant, o.Install, now, limit+1)
	if err != nil || len(due) == 0 {
		return 0, false, err
	}
	if more = len(due) > limit; more {
		due = due[:limit]
	}
	st, err := begin(c, o, now)
	if err != nil {
		return 0, false, err
	}
	for _, d := range due {
		st.last++
		if err := st.change(st.last, ext.ChangeExpire, d.ns, d.key, d.h.Revision); err != nil {
			return 0, false, err
		}
		if err := sqlitedb.Exec(c, sqlDeleteRecord, o.Tenant, o.Install, d.ns, d.key); err != nil {
			return 0, false, err
		}
		if _, _, err := st.count(d.ns, ext.Delta{Keys: -1, Bytes: -d.h.Bytes()}); err != nil {
			return 0, false, err
		}
	}
	return len(due), more, st.finish()
}

// Reclaim implements extstorage.Store.
func (s *Store) Reclaim(ctx context.Context, o ext.Owner, now ext.Moment, limit int) (n int, err error) {
	if err := o.Check(); err != nil {
		return 0, err
	}
	err = s.db.Write(ctx, "ext.reclaim", func(c *sqlite.Conn) error {
		n, _, err = reclaim(c, o, now, limit)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// Sweep implements extstorage.Store.
func (s *Store) Sweep(ctx context.Context, now ext.Moment, limit int) (n int, err error) {
	err = s.db.Write(ctx, "ext.sweep", func(c *sqlite.Conn) error {
		if n, err = sweepRecords(c, now, limit); err != nil {
			return err
		}
		swept, err := sweepOld(c, sqlSweepChanges, int64(now)-ext.ChangesKept.Milliseconds(), limit-n)
		if err != nil {
			return err
		}
		n += swept
		swept, err = sweepOld(c, sqlSweepAnswers, int64(now)-ext.AnswersKept.Milliseconds(), limit-n)
		n += swept
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// sweepOld removes what is from before a moment, the oldest first.
func sweepOld(c *sqlite.Conn, sql string, before int64, limit int) (int, error) {
	if limit <= 0 {
		return 0, nil
	}
	if err := sqlitedb.Exec(c, sql, before, limit); err != nil {
		return 0, err
	}
	return c.Changes(), nil
}

// sweepRecords removes what has expired of those installs that have what expired
// first.
func sweepRecords(c *sqlite.Conn, now ext.Moment, limit int) (total int, err error) {
	type due struct {
		o ext.Owner
		n int
	}
	var all []due
	err = sqlitedb.Each(c, sqlExpiredOwners, func(r *sqlite.Stmt) error {
		all = append(all, due{ext.Owner{Tenant: ext.TenantID(r.ColumnText(0)), Install: ext.InstallID(r.ColumnText(1))}, r.ColumnInt(2)})
		return nil
	}, now, limit)
	if err != nil {
		return 0, err
	}
	for _, d := range all {
		n, _, err := reclaim(c, d.o, now, d.n)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}
