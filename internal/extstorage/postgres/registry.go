package postgres

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/canonjson"
	"holdfast/internal/db/pgdb"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/fault"
)

// Register implements extstorage.Registry.
func (s *Store) Register(ctx context.Context, o ext.Owner, ns ext.Namespace, document []byte, by string, at ext.Moment) (ext.Schema, error) {
	if err := o.Check(); err != nil {
		return ext.Schema{}, err
	}
	schema := ext.Schema{Namespace: ns, Status: ext.Draft, Document: document, CreatedAt: at, UpdatedAt: at, CreatedBy: by}
	var creator *string
	if by != "" {
		creator = &by
	}
	_, err := s.db.QueryRow(ctx, sqlRegister,
		[]any{string(o.Tenant), string(o.Install), string(ns), string(document), creator, now(at), int32(ext.SchemasKept)}, &schema.Version)
	if err != nil {
		return ext.Schema{}, err
	}
	return schema, nil
}

// SetStatus implements extstorage.Registry.
func (s *Store) SetStatus(ctx context.Context, o ext.Owner, ns ext.Namespace, v ext.SchemaVersion, status ext.SchemaStatus, at ext.Moment) (ext.Schema, error) {
	if err := o.Check(); err != nil {
		return ext.Schema{}, err
	}
	if status != ext.Active && status != ext.Deprecated {
		return ext.Schema{}, fault.New(fault.Invalid, "a schema is activated or deprecated")
	}
	var fields []*string
	_, err := s.db.QueryRow(ctx, sqlSchemaStatus, []any{string(o.Tenant), string(o.Install), string(ns), int32(v), string(status), now(at)}, &fields)
	switch {
	case err != nil:
		return ext.Schema{}, err
	case fields == nil:
		return ext.Schema{}, ext.ErrNoSchema
	}
	schema, err := schemaOf(fields)
	schema.Namespace, schema.Version = ns, v
	return schema, err
}

// schemaOf reads what ext_schema_v1 answers.
func schemaOf(fields []*string) (schema ext.Schema, err error) {
	if len(fields) != 5 {
		return schema, fault.Wrap(fault.Internal, "internal error", fmt.Errorf("%s answered %d fields", sqlSchemaStatus.Name, len(fields)))
	}
	created, err := strconv.ParseInt(*fields[1], 10, 64)
	if err != nil {
		return schema, err
	}
	updated, err := strconv.ParseInt(*fields[2], 10, 64)
	if err != nil {
		return schema, err
	}
	schema = ext.Schema{Status: ext.SchemaStatus(*fields[0]), CreatedAt: ext.Moment(created), UpdatedAt: ext.Moment(updated)}
	if fields[3] != nil {
		schema.CreatedBy = *fields[3]
	}
	document, err := canonjson.Restore([]byte(*fields[4]))
	schema.Document = []byte(document)
	return schema, err
}

// Schemas implements extstorage.Registry.
func (s *Store) Schemas(ctx context.Context, o ext.Owner, ns ext.Namespace) ([]ext.Schema, error) {
	return s.schemas(ctx, sqlSchemas, o, ns)
}

// Active implements extstorage.Registry.
func (s *Store) Active(ctx context.Context, o ext.Owner, ns ext.Namespace) (ext.Schema, error) {
	all, err := s.schemas(ctx, sqlActive, o, ns)
	if err != nil || len(all) == 0 {
		return ext.Schema{}, err
	}
	return all[0], nil
}

func (s *Store) schemas(ctx context.Context, statement pgdb.Statement, o ext.Owner, ns ext.Namespace) (all []ext.Schema, err error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	var (
		schema           = ext.Schema{Namespace: ns}
		created, updated pgtype.Timestamptz
		document         []byte
	)
	err = s.db.ForEach(ctx, statement, []any{string(o.Tenant), string(o.Install), string(ns)}, func() { all = nil }, func() error {
		text, err := canonjson.Restore(document)
		schema.Document, schema.CreatedAt, schema.UpdatedAt = []byte(text), momentOf(created), momentOf(updated)
		all = append(all, schema)
		return err
	}, &schema.Version, &schema.Status, &created, &updated, &schema.CreatedBy, &document)
	if err != nil {
		return nil, err
	}
	return all, nil
}
