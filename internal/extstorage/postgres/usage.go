package postgres

import (
	"context"

	"holdfast/internal/db/pgdb"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/inspection"
)

// Usage implements extstorage.Store.
func (s *Store) Usage(ctx context.Context, o ext.Owner, at ext.Moment) (usage ext.Usage, err error) {
	if err := o.Check(); err != nil {
		return ext.Usage{}, err
	}
	var (
		n   ext.NamespaceUsage
		all []ext.NamespaceUsage
	)
	err = s.db.ForEach(ctx, sqlUsage, []any{string(o.Tenant), string(o.Install), now(at)},
		func() { all = nil },
		func() error {
			all = append(all, n)
			return nil
		}, (*string)(&n.Namespace), &n.Keys, &n.Bytes)
	if err != nil {
		return ext.Usage{}, err
	}
	return ext.UsageOf(all), nil
}

// ListUsage implements inspection.Store.
func (s *Store) ListUsage(ctx context.Context, span inspection.Span, limit int) (all []inspection.InstallUsage, err error) {
	if err := span.Check(); err != nil {
		return nil, err
	}
	return s.usages(ctx, sqlListUsage, bounds(span, limit))
}

// ListInstalls implements inspection.Store.
func (s *Store) ListInstalls(ctx context.Context, span inspection.Span, revoked bool, limit int) (all []inspection.InstallUsage, err error) {
	if err := span.Check(); err != nil {
		return nil, err
	}
	return s.usages(ctx, sqlListInstalls, pageOfInstalls(span, revoked, limit))
}

// pageOfInstalls returns the arguments of sqlListInstalls, unprepared: a generic plan would expect few rows, and join and
// sort all installs for each page.
func pageOfInstalls(span inspection.Span, revoked bool, limit int) []any {
	return pgdb.Unprepared(append(bounds(span, limit), revoked)...)
}

const firstInstalls = `
	AND u.extension_install_id::text COLLATE "C" >= $1::text AND u.extension_install_id::text COLLATE "C" <= $2::text
	ORDER BY u.extension_install_id::text COLLATE "C", u.tenant_id LIMIT $3::bigint`

// FindInstalls implements inspection.Store.
func (s *Store) FindInstalls(ctx context.Context, first, last ext.InstallID, limit int) (all []ext.Owner, err error) {
	for _, st := range []pgdb.Statement{sqlFindUsage, sqlFindInstalls} {
		var some []ext.Owner
		var o ext.Owner
		err := s.db.ForEach(ctx, st, []any{string(first), string(last), limit}, func() { some = nil }, func() error {
			some = append(some, o)
			return nil
		}, &o.Tenant, &o.Install)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return inspection.FirstInstalls(all, limit), nil
}

// FindRecords implements inspection.Store.
func (s *Store) FindRecords(ctx context.Context, o ext.Owner, prefix string, limit int, at ext.Moment) (all []ext.Position, err error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	end := top
	if successor, ok := ext.Successor(prefix); ok {
		end = successor
	}
	var p ext.Position
	args := []any{string(o.Tenant), string(o.Install), inspection.SearchedNamespaces, prefix, end, now(at), limit}
	err = s.db.ForEach(ctx, sqlFindRecords, args, func() { all = nil }, func() error {
		all = append(all, p)
		return nil
	}, &p.Namespace, &p.Key)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// usages reads installs with their counters.
func (s *Store) usages(ctx context.Context, st pgdb.Statement, args []any) (all []inspection.InstallUsage, err error) {
	var (
		u          inspection.InstallUsage
		registered installRow
	)
	err = s.db.ForEach(ctx, st, args,
		func() { all = nil },
		func() (err error) {
			u.Registered, err = registered.install()
			all = append(all, u)
			return err
		}, append([]any{&u.Tenant, &u.Install, &u.Bytes, &u.Keys, &u.Namespaces}, registered.columns()...)...)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Uncounted implements inspection.Store.
func (s *Store) Uncounted(ctx context.Context, span inspection.Span, limit int) (all []ext.Owner, err error) {
	if err := span.Check(); err != nil {
		return nil, err
	}
	var o ext.Owner
	err = s.db.ForEach(ctx, sqlUncounted, bounds(span, limit), func() { all = nil }, func() error {
		all = append(all, o)
		return nil
	}, &o.Tenant, &o.Install)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// bounds returns the parameters for within.
func bounds(span inspection.Span, limit int) []any {
	after, last := span.Bounds()
	return []any{string(after.Tenant), string(after.Install), string(last.Tenant), string(last.Install), int64(limit)}
}

// Filled implements inspection.Store.
func (s *Store) Filled(ctx context.Context, least ext.Quota, at ext.Moment, begin func(), fn func(inspection.Filling)) error {
	var (
		f          inspection.Filling
		registered installRow
	)
	args := []any{ext.NoticeFrom(least.Bytes), ext.NoticeFrom(least.Namespaces), ext.NoticeFrom(least.Keys), now(at)}
	return s.db.ForEach(ctx, sqlFilled, args, begin, func() (err error) {
		if f.Registered, err = registered.install(); err == nil {
			fn(f)
		}
		return err
	}, append([]any{&f.Bytes, &f.Namespaces, &f.Keys}, registered.columns()...)...)
}

// Totals implements inspection.Store.
func (s *Store) Totals(ctx context.Context, soft int64, at ext.Moment) (t inspection.Totals, err error) {
	_, err = s.db.QueryRow(ctx, sqlTotals, []any{soft, now(at), int64(inspection.ExpiredCounted)},
		&t.Installs, &t.Bytes, &t.Keys, &t.Namespaces, &t.TenantsOverSoft, &t.ExpiredPending)
	if err != nil {
		return inspection.Totals{}, err
	}
	return t, nil
}

// Audit implements inspection.Store.
func (s *Store) Audit(ctx context.Context, o ext.Owner) (audit inspection.Audit, err error) {
	if err := o.Check(); err != nil {
		return inspection.Audit{}, err
	}
	var (
		namespace      ext.Namespace
		c              ext.Counters
		counted, bytes int64
	)
	err = s.db.ForEach(ctx, sqlAudit, []any{string(o.Tenant), string(o.Install)},
		func() { audit = inspection.Audit{} },
		func() error {
			if namespace == "" {
				audit.Counters = c
				return nil
			}
			if counted > 0 {
				audit.Counted.Namespaces++
			}
			audit.Counted.Keys += counted
			audit.Counted.Bytes += bytes
			if c.Keys != counted {
				audit.Namespaces = append(audit.Namespaces, inspection.NamespaceAudit{Namespace: namespace, Keys: c.Keys, Counted: counted})
			}
			return nil
		}, &namespace, &c.Bytes, &c.Keys, &c.Namespaces, &counted, &bytes)
	if err != nil {
		return inspection.Audit{}, err
	}
	return audit, nil
}
