package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	ss "holdfast/internal/extstorage"
	"holdfast/internal/fault"
)

// scanSchema reads schemaColumns.
func scanSchema(ns ss.Namespace) func(r *sqlite.Stmt) ss.Schema {
	return func(r *sqlite.Stmt) ss.Schema {
		return ss.Schema{
			Namespace: ns, Version: ss.SchemaVersion(r.ColumnInt64(0)), Status: ss.SchemaStatus(r.ColumnText(1)),
			CreatedAt: ss.Moment(r.ColumnInt64(2)), UpdatedAt: ss.Moment(r.ColumnInt64(3)), CreatedBy: r.ColumnText(4),
			Document: []byte(r.ColumnText(5)),
		}
	}
}

// Register implements extstorage.Registry.
func (s *Store) Register(ctx context.Context, o ss.Owner, ns ss.Namespace, document []byte, by string, now ss.Moment) (ss.Schema, error) {
	sc := ss.Schema{Namespace: ns, Status: ss.Draft, Document: document, CreatedAt: now, UpdatedAt: now, CreatedBy: by}
	if err := o.Check(); err != nil {
		return ss.Schema{}, err
	}
	err := s.db.Write(ctx, "ext.register", func(c *sqlite.Conn) error {
		last, _, err := one(c, sqlLastVersion, scanInt64, o.Tenant, o.Install, ns)
		if err != nil {
			return err
		}
		sc.Version = ss.SchemaVersion(last + 1)
		return exec(c, sqlAddSchema, o.Tenant, o.Install, ns, sc.Version, sc.Status, int64(now), int64(now), optional(by), string(document))
	})
	if err != nil {
		return ss.Schema{}, err
	}
	return sc, nil
}

// SetStatus implements extstorage.Registry.
func (s *Store) SetStatus(ctx context.Context, o ss.Owner, ns ss.Namespace, v ss.SchemaVersion, status ss.SchemaStatus, now ss.Moment) (sc ss.Schema, err error) {
	if err := o.Check(); err != nil {
		return sc, err
	}
	if status != ss.Active && status != ss.Deprecated {
		return sc, fault.New(fault.Invalid, "a schema is activated or deprecated")
	}
	err = s.db.Write(ctx, "ext.set_status", func(c *sqlite.Conn) error {
		var found bool
		sc, found, err = one(c, sqlSchema, scanSchema(ns), o.Tenant, o.Install, ns, v)
		switch {
		case err != nil:
			return err
		case !found:
			return ss.ErrNoSchema
		case sc.Status == status:
			return nil
		}
		if status == ss.Active {
			if err := exec(c, sqlDeprecateActive, o.Tenant, o.Install, ns, int64(now)); err != nil {
				return err
			}
		}
		sc.Status, sc.UpdatedAt = status, now
		return exec(c, sqlSetStatus, o.Tenant, o.Install, ns, v, status, int64(now))
	})
	if err != nil {
		return ss.Schema{}, err
	}
	return sc, nil
}

// Schemas implements extstorage.Registry.
func (s *Store) Schemas(ctx context.Context, o ss.Owner, ns ss.Namespace) (all []ss.Schema, err error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	err = s.db.Read(ctx, "ext.schemas", func(c *sqlite.Conn) error {
		return each(c, sqlSchemas, func(r *sqlite.Stmt) error {
			all = append(all, scanSchema(ns)(r))
			return nil
		}, o.Tenant, o.Install, ns)
	})
	return all, err
}

// Active implements extstorage.Registry.
func (s *Store) Active(ctx context.Context, o ss.Owner, ns ss.Namespace) (sc ss.Schema, err error) {
	if err := o.Check(); err != nil {
		return sc, err
	}
	err = s.db.Read(ctx, "ext.active", func(c *sqlite.Conn) error {
		sc, _, err = one(c, sqlActive, scanSchema(ns), o.Tenant, o.Install, ns)
		return err
	})
	return sc, err
}
