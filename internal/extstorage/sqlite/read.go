package sqlite

import (
	"context"
	"errors"
	"maps"
	"slices"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/canonjson"
	"holdfast/internal/db/sqlitedb"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/inspection"
)

const valueBytesColumn = 7

// scanRecord reads a record. Value and metadata are "" if not selected.
func scanRecord(r *sqlite.Stmt) ext.Record {
	return ext.Record{
		Namespace: ext.Namespace(r.ColumnText(0)), Key: ext.Key(r.ColumnText(1)), Header: scanHeader(r, 2),
		Metadata: canonjson.Value(r.ColumnText(9)), Value: canonjson.Value(r.ColumnText(10)),
	}
}

// Get implements extstorage.Store.
func (s *Store) Get(ctx context.Context, o ext.Owner, ns ext.Namespace, key ext.Key, now ext.Moment) (rec ext.Record, err error) {
	if err := o.Check(); err != nil {
		return rec, err
	}
	err = s.db.Read(ctx, "ext.get", func(c *sqlite.Conn) error {
		var found bool
		rec, found, err = sqlitedb.QueryRow(c, sqlGet, scanRecord, o.Tenant, o.Install, now, ns, key)
		if err == nil && !found {
			err = ext.ErrNoRecord
		}
		return err
	})
	return rec, err
}

// List implements extstorage.Store.
func (s *Store) List(ctx context.Context, o ext.Owner, q ext.Query) (p ext.Page, err error) {
	if err := o.Check(); err != nil {
		return p, err
	}
	sql, from, to := sqlList, q.Prefix, any([]byte{}) // blobs sort after any text
	if end, ok := ext.Successor(q.Prefix); ok {
		to = end
	}
	switch {
	case q.Reverse:
		sql = sqlListReverse
		if end, ok := to.(string); q.After != "" && (!ok || string(q.After) < end) {
			to = q.After
		}
	case q.After != "":
		// Keys contain no control characters, so no key is between After and from.
		from = max(from, string(q.After)+"\x01")
	}
	err = s.db.Read(ctx, "ext.list", func(c *sqlite.Conn) error {
		p, err = readPage(c, sql, &q, o.Tenant, o.Install, q.Now, q.Namespace, from, to, q.Limit+1, q.Metadata, q.Values)
		return err
	})
	return p, err
}

// readPage reads records until the page is full, and then stops the query: the next value may be large.
func readPage(c *sqlite.Conn, sql string, q *ext.Query, args ...any) (p ext.Page, err error) {
	p.Records = make([]ext.Record, 0, min(q.Limit, ext.MaxPage))
	end := ext.NewPageEnd(q.Limit, q.Bytes)
	err = sqlitedb.ForEach(c, sql, func(r *sqlite.Stmt) error {
		if !end.Takes(q.Size(r.ColumnInt64(valueBytesColumn), r.ColumnInt64(valueBytesColumn+1))) {
			p.More = true
			return errStopped
		}
		p.Records = append(p.Records, scanRecord(r))
		return nil
	}, args...)
	if errors.Is(err, errStopped) {
		err = nil
	}
	return p, err
}

// Export implements extstorage.Store.
func (s *Store) Export(ctx context.Context, o ext.Owner, q ext.ExportQuery) (p ext.Page, err error) {
	if err := o.Check(); err != nil {
		return p, err
	}
	err = s.db.Read(ctx, "ext.export", func(c *sqlite.Conn) error {
		whole := q.Query()
		p, err = readPage(c, sqlExport, &whole, o.Tenant, o.Install, q.Now, q.After.Namespace, q.After.Key, q.Limit+1)
		return err
	})
	return p, err
}

// Changes implements extstorage.Store.
func (s *Store) Changes(ctx context.Context, o ext.Owner, since ext.Seq, limit int) (f ext.Feed, err error) {
	if err := o.Check(); err != nil {
		return f, err
	}
	err = s.db.Read(ctx, "ext.changes", func(c *sqlite.Conn) error {
		st, err := begin(c, o, 0)
		if err != nil {
			return err
		}
		f.Last = st.last
		next := since
		err = sqlitedb.ForEach(c, sqlChanges, func(r *sqlite.Stmt) error {
			if next++; ext.Seq(r.ColumnInt64(0)) != next {
				return errStopped // a gap from sweeping after the clock was set back
			}
			f.Changes = append(f.Changes, ext.Change{
				Seq: next, Op: ext.ChangeOp(r.ColumnText(1)), Namespace: ext.Namespace(r.ColumnText(2)), Key: ext.Key(r.ColumnText(3)),
				Revision: ext.Revision(r.ColumnInt64(4)), At: ext.Moment(r.ColumnInt64(5)),
			})
			return nil
		}, o.Tenant, o.Install, since, limit)
		switch {
		case err != nil && !errors.Is(err, errStopped):
			return err
		case len(f.Changes) == 0 && since < f.Last && limit > 0:
			return ext.ErrChangesGone
		}
		return nil
	})
	if err != nil {
		return ext.Feed{}, err
	}
	return f, nil
}

// Usage implements extstorage.Store.
func (s *Store) Usage(ctx context.Context, o ext.Owner, now ext.Moment) (u ext.Usage, err error) {
	if err := o.Check(); err != nil {
		return u, err
	}
	err = s.db.Read(ctx, "ext.usage", func(c *sqlite.Conn) error {
		namespaces, err := sqlitedb.QueryAll(c, sqlUsage, scanNamespaceUsage, o.Tenant, o.Install, now)
		u = ext.UsageOf(namespaces)
		return err
	})
	return u, err
}

// scanNamespaceUsage reads a namespace's keys and bytes.
func scanNamespaceUsage(r *sqlite.Stmt) ext.NamespaceUsage {
	return ext.NamespaceUsage{Namespace: ext.Namespace(r.ColumnText(0)), Keys: r.ColumnInt64(1), Bytes: r.ColumnInt64(2)}
}

// ListUsage implements inspection.Store.
func (s *Store) ListUsage(ctx context.Context, span inspection.Span, limit int) (all []inspection.InstallUsage, err error) {
	if err := span.Check(); err != nil {
		return nil, err
	}
	after, last := span.Bounds()
	return s.usages(ctx, "ext.list_usage", sqlListUsage, after.Tenant, after.Install, last.Tenant, last.Install, limit)
}

// ListInstalls implements inspection.Store.
func (s *Store) ListInstalls(ctx context.Context, span inspection.Span, revoked bool, limit int) (all []inspection.InstallUsage, err error) {
	if err := span.Check(); err != nil {
		return nil, err
	}
	sql := sqlListInstalls
	if revoked {
		sql = sqlListRevoked
	}
	after, last := span.Bounds()
	return s.usages(ctx, "ext.list_installs", sql, after.Tenant, after.Install, last.Tenant, last.Install, limit)
}

// FindInstalls implements inspection.Store.
func (s *Store) FindInstalls(ctx context.Context, first, last ext.InstallID, limit int) (all []ext.Owner, err error) {
	err = s.db.Read(ctx, "ext.find_installs", func(c *sqlite.Conn) error {
		all = nil
		for _, sql := range []string{sqlFindUsage, sqlFindInstalls} {
			some, err := sqlitedb.QueryAll(c, sql, func(r *sqlite.Stmt) ext.Owner {
				return ext.Owner{Tenant: ext.TenantID(r.ColumnText(0)), Install: ext.InstallID(r.ColumnText(1))}
			}, string(first), string(last), limit)
			if err != nil {
				return err
			}
			all = append(all, some...)
		}
		return nil
	})
	return inspection.FirstInstalls(all, limit), err
}

// FindRecords implements inspection.Store.
func (s *Store) FindRecords(ctx context.Context, o ext.Owner, prefix string, limit int, now ext.Moment) (all []ext.Position, err error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	end := any([]byte{})
	if successor, ok := ext.Successor(prefix); ok {
		end = successor
	}
	err = s.db.Read(ctx, "ext.find_records", func(c *sqlite.Conn) (err error) {
		all, err = sqlitedb.QueryAll(c, sqlFindRecords, func(r *sqlite.Stmt) ext.Position {
			return ext.Position{Namespace: ext.Namespace(r.ColumnText(0)), Key: ext.Key(r.ColumnText(1))}
		}, o.Tenant, o.Install, inspection.SearchedNamespaces, prefix, end, now, limit)
		return err
	})
	return all, err
}

// usages reads installs with their counters.
func (s *Store) usages(ctx context.Context, name, sql string, args ...any) (all []inspection.InstallUsage, err error) {
	err = s.db.Read(ctx, name, func(c *sqlite.Conn) error {
		return sqlitedb.ForEach(c, sql, func(r *sqlite.Stmt) error {
			in, err := scanInstall(r)
			all = append(all, inspection.InstallUsage{
				Owner:      ext.Owner{Tenant: ext.TenantID(r.ColumnText(13)), Install: ext.InstallID(r.ColumnText(14))},
				Counters:   ext.Counters{Bytes: r.ColumnInt64(15), Keys: r.ColumnInt64(16), Namespaces: r.ColumnInt64(17)},
				Registered: in,
			})
			return err
		}, args...)
	})
	return all, err
}

// Uncounted implements inspection.Store.
func (s *Store) Uncounted(ctx context.Context, span inspection.Span, limit int) (all []ext.Owner, err error) {
	if err := span.Check(); err != nil {
		return nil, err
	}
	after, last := span.Bounds()
	err = s.db.Read(ctx, "ext.uncounted", func(c *sqlite.Conn) error {
		all, err = sqlitedb.QueryAll(c, sqlUncounted, func(r *sqlite.Stmt) ext.Owner {
			return ext.Owner{Tenant: ext.TenantID(r.ColumnText(0)), Install: ext.InstallID(r.ColumnText(1))}
		}, after.Tenant, after.Install, last.Tenant, last.Install, limit)
		return err
	})
	return all, err
}

// Filled implements inspection.Store.
func (s *Store) Filled(ctx context.Context, least ext.Quota, now ext.Moment, begin func(), fn func(inspection.Filling)) error {
	return s.db.Read(ctx, "ext.filled", func(c *sqlite.Conn) error {
		begin()
		return sqlitedb.ForEach(c, sqlFilled, func(r *sqlite.Stmt) error {
			in, err := scanInstall(r)
			if err == nil {
				fn(inspection.Filling{Bytes: r.ColumnInt64(13), Namespaces: r.ColumnInt64(14), Keys: r.ColumnInt64(15), Registered: in})
			}
			return err
		}, ext.NoticeFrom(least.Bytes), ext.NoticeFrom(least.Namespaces), ext.NoticeFrom(least.Keys), now)
	})
}

// Totals implements inspection.Store.
func (s *Store) Totals(ctx context.Context, soft int64, now ext.Moment) (t inspection.Totals, err error) {
	err = s.db.Read(ctx, "ext.totals", func(c *sqlite.Conn) error {
		t, _, err = sqlitedb.QueryRow(c, sqlTotals, func(r *sqlite.Stmt) inspection.Totals {
			return inspection.Totals{
				Installs: r.ColumnInt64(0), Bytes: r.ColumnInt64(1), Keys: r.ColumnInt64(2), Namespaces: r.ColumnInt64(3),
				TenantsOverSoft: r.ColumnInt64(4), ExpiredPending: r.ColumnInt64(5),
			}
		}, soft, now, inspection.ExpiredCounted)
		return err
	})
	return t, err
}

// Audit implements inspection.Store.
func (s *Store) Audit(ctx context.Context, o ext.Owner) (a inspection.Audit, err error) {
	if err := o.Check(); err != nil {
		return a, err
	}
	err = s.db.Read(ctx, "ext.audit", func(c *sqlite.Conn) error {
		st, err := begin(c, o, 0)
		if err != nil {
			return err
		}
		a.Counters = st.has
		counters, counted := map[ext.Namespace]int64{}, map[ext.Namespace]int64{}
		namespaces, err := sqlitedb.QueryAll(c, sqlUsage, scanNamespaceUsage, o.Tenant, o.Install, st.countedAt)
		if err != nil {
			return err
		}
		a.Counted = ext.UsageOf(namespaces).Counters
		for _, n := range namespaces {
			counted[n.Namespace] = n.Keys
		}
		err = sqlitedb.ForEach(c, sqlCounters, func(r *sqlite.Stmt) error {
			counters[ext.Namespace(r.ColumnText(0))] = r.ColumnInt64(1)
			return nil
		}, o.Tenant, o.Install)
		a.Namespaces = differ(counters, counted)
		return err
	})
	return a, err
}

// differ returns the namespaces whose counter differs from their number of keys.
func differ(counters, counted map[ext.Namespace]int64) (different []inspection.NamespaceAudit) {
	all := maps.Clone(counters)
	maps.Copy(all, counted)
	for _, ns := range slices.Sorted(maps.Keys(all)) {
		if counters[ns] != counted[ns] {
			different = append(different, inspection.NamespaceAudit{Namespace: ns, Keys: counters[ns], Counted: counted[ns]})
		}
	}
	return different
}
