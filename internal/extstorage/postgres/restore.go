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

// restore runs a write that imports records with their revisions and times. It is
// rare, so ext_apply_v1 does not support it: the same transaction corrects the
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
				refused = err // an error that the transaction does not know
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

// correct sets the revisions and times of the written records, their changes and
// their events.
func correct(tx *pgdb.Tx, o ext.Owner, w *ext.Write, items []ext.Item) error {
	var namespaces, keys, seqs, revisions, created, updated array
	for i := range w.Ops {
		r := w.Ops[i].Restored
		if r == nil {
			continue
		}
		it := &items[i]
		it.Revision, it.CreatedAt, it.UpdatedAt = r.Revision, r.CreatedAt, r.UpdatedAt
		namespaces.text(string(w.Ops[i].Namespace))
		keys.text(string(w.Ops[i].Key))
		seqs.number(int64(it.Seq))
		revisions.number(int64(r.Revision))
		created.moment(r.CreatedAt)
		updated.moment(r.UpdatedAt)
	}
	if len(keys) == 0 {
		return nil
	}
	_, err := tx.Exec(sqlRestore, string(o.Tenant), string(o.Install), namespaces.whole(), keys.whole(), seqs.whole(),
		revisions.whole(), created.whole(), updated.whole())
	return err
}

// Restore implements extstorage.Registry.
func (s *Store) Restore(ctx context.Context, o ext.Owner, sc ext.Schema, quota ext.Quota, at ext.Moment) (bool, error) {
	if err := o.Check(); err != nil {
		return false, err
	}
	var creator *string
	if sc.CreatedBy != "" {
		creator = &sc.CreatedBy
	}
	var result string
	_, err := s.db.QueryRow(ctx, sqlRestoreSchema, []any{
		string(o.Tenant), string(o.Install), string(sc.Namespace), int32(sc.Version), string(sc.Status), now(sc.CreatedAt), now(sc.UpdatedAt), creator,
		string(sc.Document), now(at), int32(ext.SchemasKept), quota.Namespaces,
	}, &result)
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
