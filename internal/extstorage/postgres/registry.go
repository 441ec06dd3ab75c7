package postgres

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/db/pgdb"
	es "holdfast/internal/extstorage"
	"holdfast/internal/fault"
)

// Register implements extstorage.Registry.
func (s *Store) Register(ctx context.Context, o es.Owner, ns es.Namespace, document []byte, by string, at es.Moment) (es.Schema, error) {
	if err := o.Check(); err != nil {
		return es.Schema{}, err
	}
	schema := es.Schema{Namespace: ns, Status: es.Draft, Document: document, CreatedAt: at, UpdatedAt: at, CreatedBy: by}
	var creator *string
	if by != "" {
		creator = &by
	}
	_, err := s.db.One(ctx, sqlRegister, []any{string(o.Tenant), string(o.Install), string(ns), string(document), creator, now(at)}, &schema.Version)
	if err != nil {
		return es.Schema{}, err
	}
	return schema, nil
}

// SetStatus implements extstorage.Registry.
func (s *Store) SetStatus(ctx context.Context, o es.Owner, ns es.Namespace, v es.SchemaVersion, status es.SchemaStatus, at es.Moment) (es.Schema, error) {
	if err := o.Check(); err != nil {
		return es.Schema{}, err
	}
	var fields []*string
	_, err := s.db.One(ctx, sqlSchemaStatus, []any{string(o.Tenant), string(o.Install), string(ns), int32(v), string(status), now(at)}, &fields)
	switch {
	case err != nil:
		return es.Schema{}, err
	case fields == nil:
		return es.Schema{}, es.ErrNoSchema
	}
	schema, err := schemaOf(fields)
	schema.Namespace, schema.Version = ns, v
	return schema, err
}

// schemaOf reads what ext_schema_v1 answers.
func schemaOf(fields []*string) (schema es.Schema, err error) {
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
	schema = es.Schema{Status: es.SchemaStatus(*fields[0]), CreatedAt: es.Moment(created), UpdatedAt: es.Moment(updated)}
	if fields[3] != nil {
		schema.CreatedBy = *fields[3]
	}
	document, err := es.Canonical([]byte(*fields[4]))
	schema.Document = []byte(document)
	return schema, err
}

// Schemas implements extstorage.Registry.
func (s *Store) Schemas(ctx context.Context, o es.Owner, ns es.Namespace) ([]es.Schema, error) {
	return s.schemas(ctx, sqlSchemas, o, ns)
}

// Active implements extstorage.Registry.
func (s *Store) Active(ctx context.Context, o es.Owner, ns es.Namespace) (es.Schema, error) {
	all, err := s.schemas(ctx, sqlActive, o, ns)
	if err != nil || len(all) == 0 {
		return es.Schema{}, err
	}
	return all[0], nil
}

func (s *Store) schemas(ctx context.Context, statement pgdb.Statement, o es.Owner, ns es.Namespace) (all []es.Schema, err error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	var (
		schema           = es.Schema{Namespace: ns}
		created, updated pgtype.Timestamptz
		document         []byte
	)
	err = s.db.Each(ctx, statement, []any{string(o.Tenant), string(o.Install), string(ns)}, func() { all = nil }, func() error {
		text, err := es.Canonical(document)
		schema.Document, schema.CreatedAt, schema.UpdatedAt = []byte(text), momentOf(created), momentOf(updated)
		all = append(all, schema)
		return err
	}, &schema.Version, &schema.Status, &created, &updated, &schema.CreatedBy, &document)
	if err != nil {
		return nil, err
	}
	return all, nil
}
