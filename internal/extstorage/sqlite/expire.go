package sqlite

import (
	"context"
	"math"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	ext "holdfast/internal/extstorage"
)

// remove deletes an install's expired records, as changes that clients see.
func remove(c *sqlite.Conn, o ext.Owner, now, due ext.Moment, limit int) (n int, err error) {
	st, err := begin(c, o, now)
	if err != nil {
		return 0, err
	}
	if st.closed {
		return removeClosed(c, o, now, due, limit)
	}
	type expired struct {
		ns  ext.Namespace
		key ext.Key
		h   ext.Header
	}
	var all []expired
	err = sqlitedb.ForEach(c, sqlExpired, func(r *sqlite.Stmt) error {
		all = append(all, expired{ext.Namespace(r.ColumnText(0)), ext.Key(r.ColumnText(1)), scanHeader(r, 2)})
		return nil
	}, o.Tenant, o.Install, due, limit)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	for i := range all {
		d := &all[i]
		st.last++
		if err := st.change(st.last, ext.ChangeExpire, d.ns, d.key, d.h.Revision); err != nil {
			return 0, err
		}
		if err := sqlitedb.Exec(c, sqlDeleteRecord, o.Tenant, o.Install, d.ns, d.key); err != nil {
			return 0, err
		}
		if _, _, err := st.count(d.ns, ext.DeltaOf(&d.h, nil, st.countedAt)); err != nil {
			return 0, err
		}
	}
	return len(all), st.finish()
}

// removeClosed deletes expired records of an install that is being deleted. Nobody reads its changes any more.
func removeClosed(c *sqlite.Conn, o ext.Owner, now, due ext.Moment, limit int) (int, error) {
	d, found, err := deletionOf(c, o)
	if err != nil || !found {
		return 0, err
	}
	step := ext.DeleteStep{Bytes: math.MaxInt64, Now: now}
	n, err := deleteRecords(c, o, sqlExpiredOfClosed, &step, &d.Deleted, o.Tenant, o.Install, due, limit)
	if err != nil || n == 0 {
		return 0, err
	}
	return int(n), setDeleted(c, o, &d.Deleted)
}

// Sweep implements extstorage.Store.
func (s *Store) Sweep(ctx context.Context, kind ext.Swept, now, due ext.Moment, limit int) (n int, err error) {
	err = s.db.Write(ctx, "ext.sweep", func(c *sqlite.Conn) error {
		switch kind {
		case ext.SweptRecords:
			n, err = sweepRecords(c, now, due, limit)
		case ext.SweptChanges:
			n, err = sweepOld(c, sqlSweepChanges, int64(due)-ext.ChangesKept.Milliseconds(), limit)
		case ext.SweptAnswers:
			n, err = sweepOld(c, sqlSweepAnswers, int64(due)-ext.AnswersKept.Milliseconds(), limit)
		case ext.SweptTokens:
			n, err = sweepOld(c, sqlSweepTokens, int64(due), limit)
		case ext.SweptTombstones:
			n, err = sweepTombstones(c, due, limit)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// sweepOld runs a statement that deletes up to limit rows older than before.
func sweepOld(c *sqlite.Conn, sql string, before int64, limit int) (int, error) {
	if err := sqlitedb.Exec(c, sql, before, limit); err != nil {
		return 0, err
	}
	return c.Changes(), nil
}

// sweepRecords removes expired records, install by install.
func sweepRecords(c *sqlite.Conn, now, due ext.Moment, limit int) (total int, err error) {
	type part struct {
		o ext.Owner
		n int
	}
	var all []part
	err = sqlitedb.ForEach(c, sqlExpiredOwners, func(r *sqlite.Stmt) error {
		all = append(all, part{ext.Owner{Tenant: ext.TenantID(r.ColumnText(0)), Install: ext.InstallID(r.ColumnText(1))}, r.ColumnInt(2)})
		return nil
	}, due, limit)
	if err != nil {
		return 0, err
	}
	for _, d := range all {
		n, err := remove(c, d.o, now, due, d.n)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}
