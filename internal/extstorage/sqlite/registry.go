package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"errors"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

const documentColumn = 5

// scanSchema reads a schema version.
func scanSchema(ns ext.Namespace) func(r *sqlite.Stmt) ext.Schema {
	return func(r *sqlite.Stmt) ext.Schema {
		return ext.Schema{
			Namespace: ns, Version: ext.SchemaVersion(r.ColumnInt64(0)), Status: ext.SchemaStatus(r.ColumnText(1)),
			CreatedAt: ext.Moment(r.ColumnInt64(2)), UpdatedAt: ext.Moment(r.ColumnInt64(3)), CreatedBy: r.ColumnText(4),
			Document: []byte(r.ColumnText(documentColumn)),
		}
	}
}

// Register implements extstorage.Registry.
func (s *Store) Register(ctx context.Context, o ext.Owner, sc ext.Schema, quota ext.Quota) (ext.Schema, error) {
	ns, now := sc.Namespace, sc.CreatedAt
	sc.Status, sc.UpdatedAt = ext.Draft, now
	if err := o.Check(); err != nil {
		return ext.Schema{}, err
	}
	err := s.db.Write(ctx, "ext.register", func(c *sqlite.Conn) error {
		if err := fitsNamespace(c, o, ns, quota, now); err != nil {
			return err
		}
		last, _, err := sqlitedb.QueryRow(c, sqlLastVersion, scanInt64, o.Tenant, o.Install, ns)
		if err != nil {
			return err
		}
		floor, _, err := sqlitedb.QueryRow(c, sqlFloor, scanInt64, o.Tenant, o.Install, last)
		switch {
		case err != nil:
			return err
		case max(last, floor) >= ext.MaxSchemaVersion:
			return ext.ErrNoVersionLeft
		}
		sc.Version = ext.SchemaVersion(max(last, floor) + 1)
		if err := sqlitedb.Exec(c, sqlAddSchema, o.Tenant, o.Install, ns, sc.Version, sc.Status, now, now, orNull(sc.CreatedBy), string(sc.Document)); err != nil {
			return err
		}
		return sqlitedb.Exec(c, sqlDropSchemas, o.Tenant, o.Install, ns, ext.SchemasKept)
	})
	if err != nil {
		return ext.Schema{}, err
	}
	return sc, nil
}

// fitsNamespace checks the namespace quota for a new schema, and that the install is not closed. It inserts a missing
// install row, because the row stores the last deleted version.
func fitsNamespace(c *sqlite.Conn, o ext.Owner, ns ext.Namespace, quota ext.Quota, now ext.Moment) error {
	st, err := begin(c, o, now)
	if err == nil {
		err = st.open()
	}
	if err == nil && !st.known {
		err = sqlitedb.Exec(c, sqlAddUsage, o.Tenant, o.Install, 0, 0, 0, st.last, now, now)
	}
	if err == nil && st.countedAt > now { // a rejected write counted records by another server's clock
		err = errors.Join(st.recount(now), st.finish())
	}
	for exact := false; err == nil; exact = true {
		keys, _, err := sqlitedb.QueryRow(c, sqlNamespaceKeys, scanInt64, o.Tenant, o.Install, ns)
		if err != nil {
			return err
		}
		if _, has, err := sqlitedb.QueryRow(c, sqlHasSchema, scanInt64, o.Tenant, o.Install, ns); err != nil || has {
			return err
		}
		others, _, err := sqlitedb.QueryRow(c, sqlOnlySchemas, scanInt64, o.Tenant, o.Install)
		if err != nil {
			return err
		}
		used := st.has.Namespaces + others
		if keys == 0 {
			used++
		}
		isExact := exact || st.countedAt == now
		switch {
		case used <= quota.Namespaces, keys > 0 && isExact: // otherwise the namespace's keys may have expired
			return nil
		case isExact:
			return ext.NamespaceQuota(quota, used)
		}
		if err := errors.Join(st.recount(now), st.finish()); err != nil { // expired records do not count
			return err
		}
	}
	return err
}

// DropSchemas implements extstorage.Registry.
func (s *Store) DropSchemas(ctx context.Context, o ext.Owner, ns ext.Namespace, v ext.SchemaVersion, _ ext.Moment) (n int, err error) {
	if err := o.Check(); err != nil {
		return 0, err
	}
	err = s.db.Write(ctx, "ext.drop_schemas", func(c *sqlite.Conn) error {
		if err := refuseClosed(c, o); err != nil {
			return err
		}
		last, _, err := sqlitedb.QueryRow(c, sqlLastVersion, scanInt64, o.Tenant, o.Install, ns)
		if err != nil {
			return err
		}
		active, _, err := sqlitedb.QueryRow(c, sqlActiveVersion, scanInt64, o.Tenant, o.Install, ns)
		switch {
		case err != nil:
			return err
		case v > 0 && (int64(v) == last || int64(v) == active):
			return ext.ErrSchemaNeeded
		}
		if err := sqlitedb.Exec(c, sqlDropVersions, o.Tenant, o.Install, ns, v); err != nil {
			return err
		}
		n = c.Changes()
		if v > 0 {
			return nil
		}
		return sqlitedb.Exec(c, sqlRaiseFloor, o.Tenant, o.Install, last)
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// SetStatus implements extstorage.Registry.
func (s *Store) SetStatus(ctx context.Context, o ext.Owner, id ext.SchemaID, status ext.SchemaStatus, now ext.Moment) (sc ext.Schema, err error) {
	if err := o.Check(); err != nil {
		return sc, err
	}
	if status != ext.Active && status != ext.Deprecated {
		return sc, errcode.New(errcode.Invalid, "a schema can only be activated or deprecated")
	}
	err = s.db.Write(ctx, "ext.set_status", func(c *sqlite.Conn) error {
		if err := refuseClosed(c, o); err != nil {
			return err
		}
		var found bool
		sc, found, err = sqlitedb.QueryRow(c, sqlSchema, scanSchema(id.Namespace), o.Tenant, o.Install, id.Namespace, id.Version)
		switch {
		case err != nil:
			return err
		case !found:
			return ext.ErrNoSchema
		case sc.Status == status:
			return nil
		}
		if status == ext.Active {
			if err := sqlitedb.Exec(c, sqlDeprecateActive, o.Tenant, o.Install, id.Namespace, now); err != nil {
				return err
			}
		}
		sc.Status, sc.UpdatedAt = status, now
		return sqlitedb.Exec(c, sqlSetStatus, o.Tenant, o.Install, id.Namespace, id.Version, status, now)
	})
	if err != nil {
		return ext.Schema{}, err
	}
	return sc, nil
}

// Restore implements extstorage.Registry.
func (s *Store) Restore(ctx context.Context, o ext.Owner, sc ext.Schema, quota ext.Quota, now ext.Moment) (changed bool, err error) {
	if err := o.Check(); err != nil {
		return false, err
	}
	err = s.db.Write(ctx, "ext.restore_schema", func(c *sqlite.Conn) error {
		if err := fitsNamespace(c, o, sc.Namespace, quota, now); err != nil {
			return err
		}
		there, found, err := sqlitedb.QueryRow(c, sqlSchema, scanSchema(sc.Namespace), o.Tenant, o.Install, sc.Namespace, sc.Version)
		if err != nil {
			return err
		}
		newer, _, err := sqlitedb.QueryRow(c, sqlNewer, scanInt64, o.Tenant, o.Install, sc.Namespace, sc.Version)
		if err != nil {
			return err
		}
		switch {
		case found && !bytes.Equal(there.Document, sc.Document):
			return ext.ErrSchemaConflict
		case found:
			changed = sc.Status != there.Status && sc.Status != ext.Draft
		default:
			changed = sc.Status == ext.Active || newer < ext.SchemasKept
		}
		if !changed {
			return nil
		}
		if sc.Status == ext.Active {
			if err := sqlitedb.Exec(c, sqlDeprecateActive, o.Tenant, o.Install, sc.Namespace, now); err != nil {
				return err
			}
		}
		if found {
			return sqlitedb.Exec(c, sqlSetStatus, o.Tenant, o.Install, sc.Namespace, sc.Version, sc.Status, sc.UpdatedAt)
		}
		if err := sqlitedb.Exec(c, sqlAddSchema, o.Tenant, o.Install, sc.Namespace, sc.Version, sc.Status, sc.CreatedAt, sc.UpdatedAt,
			orNull(sc.CreatedBy), string(sc.Document)); err != nil {
			return err
		}
		return sqlitedb.Exec(c, sqlDropSchemas, o.Tenant, o.Install, sc.Namespace, ext.SchemasKept)
	})
	return changed && err == nil, err
}

// ExportSchemas implements extstorage.Registry.
func (s *Store) ExportSchemas(ctx context.Context, o ext.Owner, after ext.SchemaPosition, limit int) (all []ext.Schema, err error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	err = s.db.Read(ctx, "ext.export_schemas", func(c *sqlite.Conn) error {
		all, err = sqlitedb.QueryAll(c, sqlExportSchemas, func(r *sqlite.Stmt) ext.Schema {
			return scanSchema(ext.Namespace(r.ColumnText(6)))(r)
		}, o.Tenant, o.Install, after.Namespace, after.Version, limit)
		return err
	})
	return all, err
}

// Schemas implements extstorage.Registry.
func (s *Store) Schemas(ctx context.Context, o ext.Owner, q ext.SchemaQuery) (p ext.SchemaPage, err error) {
	if err := o.Check(); err != nil {
		return p, err
	}
	before := cmp.Or(int64(q.Before), ext.MaxSchemaVersion+1)
	scan, end := scanSchema(q.Namespace), ext.NewPageEnd(q.Limit, q.Bytes)
	err = s.db.Read(ctx, "ext.schemas", func(c *sqlite.Conn) error {
		err := sqlitedb.ForEach(c, sqlSchemas, func(r *sqlite.Stmt) error {
			if !end.Takes(int64(r.ColumnLen(documentColumn))) {
				p.More = true
				return errStopped
			}
			p.Schemas = append(p.Schemas, scan(r))
			return nil
		}, o.Tenant, o.Install, q.Namespace, before, q.Limit+1)
		if errors.Is(err, errStopped) {
			return nil
		}
		return err
	})
	return p, err
}

// Schema implements extstorage.Registry.
func (s *Store) Schema(ctx context.Context, o ext.Owner, ns ext.Namespace, v ext.SchemaVersion) (sc ext.Schema, err error) {
	if err := o.Check(); err != nil {
		return sc, err
	}
	err = s.db.Read(ctx, "ext.schema", func(c *sqlite.Conn) error {
		var found bool
		sc, found, err = sqlitedb.QueryRow(c, sqlSchema, scanSchema(ns), o.Tenant, o.Install, ns, v)
		if err == nil && !found {
			err = ext.ErrNoSchema
		}
		return err
	})
	return sc, err
}

// Active implements extstorage.Registry.
func (s *Store) Active(ctx context.Context, o ext.Owner, ns ext.Namespace) (sc ext.Schema, err error) {
	if err := o.Check(); err != nil {
		return sc, err
	}
	err = s.db.Read(ctx, "ext.active", func(c *sqlite.Conn) error {
		sc, _, err = sqlitedb.QueryRow(c, sqlActive, scanSchema(ns), o.Tenant, o.Install, ns)
		return err
	})
	return sc, err
}
