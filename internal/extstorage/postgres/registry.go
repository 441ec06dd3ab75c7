package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"math"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/canonjson"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

// Register implements extstorage.Registry.
func (s *Store) Register(ctx context.Context, o ext.Owner, schema ext.Schema, quota ext.Quota) (ext.Schema, error) {
	if err := o.Check(); err != nil {
		return ext.Schema{}, err
	}
	schema.Status, schema.UpdatedAt = ext.Draft, schema.CreatedAt
	var version int64
	_, err := s.db.QueryRow(ctx, sqlRegister.Statement, sqlRegister.Args(newSchema{o, schema, quota}), &version)
	switch {
	case err != nil:
		return ext.Schema{}, refusedClosed(err)
	case version < 0:
		return ext.Schema{}, ext.NamespaceQuota(quota, -version)
	case version == 0:
		return ext.Schema{}, ext.ErrNoVersionLeft
	}
	schema.Version = ext.SchemaVersion(version)
	return schema, nil
}

// newSchema holds the parameters for a new schema version.
type newSchema struct {
	owner ext.Owner
	ext.Schema
	quota ext.Quota
}

// args names and orders the parameters for pgdb.
func (n newSchema) args() []pgdb.Arg {
	return []pgdb.Arg{
		tenant(n.owner), install(n.owner),
		{Param: "p_namespace text", Value: string(n.Namespace)},
		{Param: "p_document text", Value: string(n.Document)},
		{Param: "p_by uuid", Value: orNull(n.CreatedBy)},
		{Param: "p_now timestamptz", Value: now(n.CreatedAt)},
		{Param: "p_keep integer", Value: int32(ext.SchemasKept)},
		{Param: "p_max_namespaces bigint", Value: n.quota.Namespaces},
	}
}

// DropSchemas implements extstorage.Registry.
func (s *Store) DropSchemas(ctx context.Context, o ext.Owner, ns ext.Namespace, v ext.SchemaVersion, at ext.Moment) (n int, err error) {
	if err := o.Check(); err != nil {
		return 0, err
	}
	_, err = s.db.QueryRow(ctx, sqlDropSchemas, []any{string(o.Tenant), string(o.Install), string(ns), int32(v), now(at)}, &n)
	switch {
	case err != nil:
		return 0, refusedClosed(err)
	case n < 0:
		return 0, ext.ErrSchemaNeeded
	}
	return n, nil
}

// SetStatus implements extstorage.Registry.
func (s *Store) SetStatus(ctx context.Context, o ext.Owner, id ext.SchemaID, status ext.SchemaStatus, at ext.Moment) (ext.Schema, error) {
	if err := o.Check(); err != nil {
		return ext.Schema{}, err
	}
	if status != ext.Active && status != ext.Deprecated {
		return ext.Schema{}, errcode.New(errcode.Invalid, "a schema can only be activated or deprecated")
	}
	var text []byte
	_, err := s.db.QueryRow(ctx, sqlSchemaStatus.Statement, sqlSchemaStatus.Args(newStatus{o, id, status, at}), &text)
	switch {
	case err != nil:
		return ext.Schema{}, refusedClosed(err)
	case text == nil:
		return ext.Schema{}, ext.ErrNoSchema
	}
	schema, err := schemaOf(text)
	schema.Namespace, schema.Version = id.Namespace, id.Version
	return schema, err
}

// newStatus holds the parameters that change a schema's status.
type newStatus struct {
	owner  ext.Owner
	schema ext.SchemaID
	status ext.SchemaStatus
	at     ext.Moment
}

// args names and orders the parameters for pgdb.
func (n newStatus) args() []pgdb.Arg {
	return []pgdb.Arg{
		tenant(n.owner), install(n.owner),
		{Param: "p_namespace text", Value: string(n.schema.Namespace)},
		{Param: "p_version integer", Value: int32(n.schema.Version)},
		{Param: "p_status text", Value: string(n.status)},
		{Param: "p_now timestamptz", Value: now(n.at)},
	}
}

// schemaOf decodes a function's answer.
func schemaOf(text []byte) (schema ext.Schema, err error) {
	var answer struct {
		Status    ext.SchemaStatus `json:"status"`
		CreatedAt ext.Moment       `json:"createdAt"`
		UpdatedAt ext.Moment       `json:"updatedAt"`
		CreatedBy string           `json:"createdBy"`
		Document  json.RawMessage  `json:"document"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return schema, errcode.Wrap(errcode.Internal, "internal error", err)
	}
	document, err := canonjson.Restore(answer.Document)
	return ext.Schema{
		Status: answer.Status, CreatedAt: answer.CreatedAt, UpdatedAt: answer.UpdatedAt, CreatedBy: answer.CreatedBy, Document: []byte(document),
	}, err
}

// schemaRow holds the destinations for a schema version.
type schemaRow struct {
	ext.Schema

	created, updated pgtype.Timestamptz
	document         []byte
	size             int64
}

// columns returns the destinations in order.
func (r *schemaRow) columns() []any {
	return []any{&r.Version, &r.Status, &r.created, &r.updated, &r.CreatedBy, &r.document}
}

// schema decodes the last row read.
func (r *schemaRow) schema() (ext.Schema, error) {
	sc := r.Schema
	sc.CreatedAt, sc.UpdatedAt = momentOf(r.created), momentOf(r.updated)
	if len(r.document) == 0 {
		return sc, nil
	}
	text, err := canonjson.Restore(r.document)
	sc.Document = []byte(text)
	return sc, err
}

// Schemas implements extstorage.Registry.
func (s *Store) Schemas(ctx context.Context, o ext.Owner, q ext.SchemaQuery) (ext.SchemaPage, error) {
	if err := o.Check(); err != nil {
		return ext.SchemaPage{}, err
	}
	r := schemaRow{Schema: ext.Schema{Namespace: q.Namespace}}
	dest := append(r.columns(), &r.size)
	before := cmp.Or(int64(q.Before), ext.MaxSchemaVersion+1)
	limit, sent := q.Limit, int64(cmp.Or(q.Bytes, ext.PageBytes)/q.Limit)
	for {
		var page ext.SchemaPage
		var end ext.PageEnd
		var withheld bool
		err := s.db.ForEach(ctx, sqlSchemas, []any{string(o.Tenant), string(o.Install), string(q.Namespace), before, int64(limit) + 1, sent}, func() {
			page, end, withheld = ext.SchemaPage{}, ext.NewPageEnd(limit, q.Bytes), false
		}, func() error {
			if page.More = page.More || !end.Takes(r.size); page.More {
				return nil
			}
			withheld = withheld || r.size > sent
			sc, err := r.schema()
			page.Schemas = append(page.Schemas, sc)
			return err
		}, dest...)
		if err != nil {
			return ext.SchemaPage{}, err
		}
		if !withheld {
			return page, nil
		}
		limit, sent = len(page.Schemas), math.MaxInt64
	}
}

// Schema implements extstorage.Registry.
func (s *Store) Schema(ctx context.Context, o ext.Owner, ns ext.Namespace, v ext.SchemaVersion) (ext.Schema, error) {
	sc, found, err := s.schema(ctx, sqlSchema, o, ns, int32(v))
	if err == nil && !found {
		err = ext.ErrNoSchema
	}
	return sc, err
}

// Active implements extstorage.Registry.
func (s *Store) Active(ctx context.Context, o ext.Owner, ns ext.Namespace) (ext.Schema, error) {
	sc, _, err := s.schema(ctx, sqlActive, o, ns)
	return sc, err
}

// schema runs a statement that returns at most a schema version.
func (s *Store) schema(ctx context.Context, statement pgdb.Statement, o ext.Owner, ns ext.Namespace, args ...any) (sc ext.Schema, found bool, err error) {
	if err := o.Check(); err != nil {
		return ext.Schema{}, false, err
	}
	r := schemaRow{Schema: ext.Schema{Namespace: ns}}
	found, err = s.db.QueryRow(ctx, statement, append([]any{string(o.Tenant), string(o.Install), string(ns)}, args...), r.columns()...)
	if err != nil || !found {
		return ext.Schema{}, false, err
	}
	sc, err = r.schema()
	return sc, found, err
}
