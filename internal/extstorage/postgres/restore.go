package postgres

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/canonjson"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

// restore imports records. Because this is rare, ext_apply_v1 does not support it: the same transaction corrects
// revisions and times afterwards.
func (s *Store) restore(ctx context.Context, o ext.Owner, w *ext.Write) (applied ext.Applied, err error) {
	var refused error
	err = s.db.Tx(ctx, "ext.restore", func(tx *pgdb.Tx) (err error) {
		refused = nil
		if w.After > 0 {
			if _, err := tx.Exec(sqlLeap, string(o.Tenant), string(o.Install), now(w.Now), int64(w.After)); err != nil {
				return err
			}
		}
		if applied, err = apply(tx.QueryRow, o, w); err != nil {
			if isRefusal(err) {
				refused = err
			}
			return err
		}
		return correct(tx, o, w, applied.Items)
	})
	if refused != nil {
		return ext.Applied{}, refused
	}
	return applied, err
}

// correct gives imported records their revisions and times, after ext_apply_v1 gave them new ones.
func correct(tx *pgdb.Tx, o ext.Owner, w *ext.Write, items []ext.Item) error {
	all := restored{owner: o}
	for i := range w.Ops {
		r := w.Ops[i].Restored
		if r == nil {
			continue
		}
		it := &items[i]
		it.Revision, it.CreatedAt, it.UpdatedAt = r.Revision, r.CreatedAt, r.UpdatedAt
		all.namespaces.text(string(w.Ops[i].Namespace))
		all.keys.text(string(w.Ops[i].Key))
		all.seqs.number(int64(it.Seq))
		all.revisions.number(int64(r.Revision))
		all.created.moment(r.CreatedAt)
		all.updated.moment(r.UpdatedAt)
	}
	if len(all.keys) == 0 {
		return nil
	}
	_, err := tx.Exec(sqlRestore.Statement, sqlRestore.Args(all)...)
	return err
}

// restored holds the parameters for correct: an element per record.
type restored struct {
	owner                                               ext.Owner
	namespaces, keys, seqs, revisions, created, updated array
}

// args names and orders the parameters for pgdb.
func (r restored) args() []pgdb.Arg {
	return []pgdb.Arg{
		tenant(r.owner), install(r.owner),
		{Param: "p_namespaces text[]", Value: r.namespaces.whole()},
		{Param: "p_keys text[]", Value: r.keys.whole()},
		{Param: "p_seqs bigint[]", Value: r.seqs.whole()},
		{Param: "p_revisions bigint[]", Value: r.revisions.whole()},
		{Param: "p_created timestamptz[]", Value: r.created.whole()},
		{Param: "p_updated timestamptz[]", Value: r.updated.whole()},
	}
}

// Restore implements extstorage.Registry.
func (s *Store) Restore(ctx context.Context, o ext.Owner, sc ext.Schema, quota ext.Quota, at ext.Moment) (bool, error) {
	if err := o.Check(); err != nil {
		return false, err
	}
	var result string
	_, err := s.db.QueryRow(ctx, sqlRestoreSchema.Statement, sqlRestoreSchema.Args(restoredSchema{o, sc, quota, at}), &result)
	switch {
	case err != nil:
		return false, refusedClosed(err)
	case result == "conflict":
		return false, ext.ErrSchemaConflict
	case result != "changed" && result != "same":
		used, err := strconv.ParseInt(result, 10, 64)
		if err != nil {
			return false, errcode.Wrap(errcode.Internal, "internal error", err)
		}
		return false, ext.NamespaceQuota(quota, used)
	}
	return result == "changed", nil
}

// restoredSchema holds the parameters for an imported schema version.
type restoredSchema struct {
	owner ext.Owner
	ext.Schema
	quota ext.Quota
	at    ext.Moment
}

// args names and orders the parameters for pgdb.
func (r restoredSchema) args() []pgdb.Arg {
	return []pgdb.Arg{
		tenant(r.owner), install(r.owner),
		{Param: "p_namespace text", Value: string(r.Namespace)},
		{Param: "p_version integer", Value: int32(r.Version)},
		{Param: "p_status text", Value: string(r.Status)},
		{Param: "p_created timestamptz", Value: now(r.CreatedAt)},
		{Param: "p_updated timestamptz", Value: now(r.UpdatedAt)},
		{Param: "p_by uuid", Value: orNull(r.CreatedBy)},
		{Param: "p_document text", Value: string(r.Document)},
		{Param: "p_now timestamptz", Value: now(r.at)},
		{Param: "p_keep integer", Value: int32(ext.SchemasKept)},
		{Param: "p_max_namespaces bigint", Value: r.quota.Namespaces},
	}
}

// orNull stores "" as NULL.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// ExportSchemas implements extstorage.Registry.
func (s *Store) ExportSchemas(ctx context.Context, o ext.Owner, after ext.SchemaPosition, limit int) (all []ext.Schema, err error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	var (
		schema           ext.Schema
		created, updated pgtype.Timestamptz
		document         []byte
	)
	err = s.db.ForEach(ctx, sqlExportSchemas, []any{string(o.Tenant), string(o.Install), string(after.Namespace), int32(after.Version), int64(limit)},
		func() { all = nil }, func() error {
			text, err := canonjson.Restore(document)
			schema.Document, schema.CreatedAt, schema.UpdatedAt = []byte(text), momentOf(created), momentOf(updated)
			all = append(all, schema)
			return err
		}, &schema.Namespace, &schema.Version, &schema.Status, &created, &updated, &schema.CreatedBy, &document)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// SkipChanges updates all shards on Citus.
func (s *Store) SkipChanges(ctx context.Context, n int64) error {
	_, err := s.db.Exec(ctx, sqlRaiseFirst, n)
	if err == nil {
		_, err = s.db.Exec(ctx, sqlRaiseFloors)
	}
	if err == nil {
		_, err = s.db.Exec(ctx, sqlSkipChanges, n, ext.SkippedVersions(n))
	}
	return err
}
