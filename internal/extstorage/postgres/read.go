package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/canonjson"
	"holdfast/internal/db/pgdb"
	ext "holdfast/internal/extstorage"
)

// row is a record as it is read.
type row struct {
	ext.Record

	created, updated, expires pgtype.Timestamptz
	value, metadata           []byte // in the engine's spelling; empty: not asked for
}

// columns are where the columns of header go. The driver takes long for types
// that are not its own.
func (r *row) columns() []any {
	return []any{(*int64)(&r.Revision), (*int64)(&r.Seq), &r.created, &r.updated, &r.expires, &r.ValueBytes, &r.MetadataBytes}
}

// record is what was read.
func (r *row) record() (ext.Record, error) {
	rec := r.Record
	rec.CreatedAt, rec.UpdatedAt, rec.ExpiresAt = momentOf(r.created), momentOf(r.updated), momentOf(r.expires)
	var err error
	if len(r.value) > 0 {
		if rec.Value, err = canonjson.Restore(r.value); err != nil {
			return ext.Record{}, err
		}
	}
	if len(r.metadata) > 0 {
		rec.Metadata, err = canonjson.Restore(r.metadata)
	}
	return rec, err
}

// Get implements extstorage.Store.
func (s *Store) Get(ctx context.Context, o ext.Owner, ns ext.Namespace, key ext.Key, at ext.Moment) (ext.Record, error) {
	if err := o.Check(); err != nil {
		return ext.Record{}, err
	}
	r := row{Record: ext.Record{Namespace: ns, Key: key}}
	found, err := s.db.QueryRow(ctx, sqlGet, []any{string(o.Tenant), string(o.Install), string(ns), string(key), now(at)},
		append(r.columns(), &r.value, &r.metadata)...)
	if err != nil {
		return ext.Record{}, err
	}
	if !found {
		return ext.Record{}, ext.ErrNoRecord
	}
	return r.record()
}

// List implements extstorage.Store. It reads one record more than asked for,
// which tells whether there is another.
func (s *Store) List(ctx context.Context, o ext.Owner, q ext.Query) (page ext.Page, err error) {
	if err := o.Check(); err != nil {
		return ext.Page{}, err
	}
	after, end := string(q.After), top
	if successor, ok := ext.Successor(q.Prefix); ok {
		end = successor
	}
	statement := sqlList
	if q.Reverse {
		statement = sqlListReverse
		if after != "" {
			after, end = "", min(end, after)
		}
	}
	page.Records, err = s.records(ctx, statement, q.Limit+1, row{Record: ext.Record{Namespace: q.Namespace}}, func(r *row) []any {
		return append(append([]any{(*string)(&r.Key)}, r.columns()...), &r.value, &r.metadata)
	}, string(o.Tenant), string(o.Install), string(q.Namespace), after, q.Prefix, end, q.Values, q.Metadata, now(q.Now), int64(q.Limit)+1)
	if len(page.Records) > q.Limit {
		page.Records, page.More = page.Records[:q.Limit], true
	}
	return page, err
}

// Export implements extstorage.Store.
func (s *Store) Export(ctx context.Context, o ext.Owner, after ext.Position, limit int, at ext.Moment) ([]ext.Record, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	return s.records(ctx, sqlExport, limit, row{}, func(r *row) []any {
		return append(append([]any{(*string)(&r.Namespace), (*string)(&r.Key)}, r.columns()...), &r.value, &r.metadata)
	}, string(o.Tenant), string(o.Install), string(after.Namespace), string(after.Key), now(at), int64(limit))
}

// records reads at most limit rows into r, by the places that dest names.
func (s *Store) records(ctx context.Context, statement pgdb.Statement, limit int, r row, dest func(*row) []any, args ...any) (all []ext.Record, err error) {
	err = s.db.ForEach(ctx, statement, args, func() { all = make([]ext.Record, 0, min(limit, ext.MaxPage+1)) }, func() error {
		rec, err := r.record()
		all = append(all, rec)
		return err
	}, dest(&r)...)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Changes implements extstorage.Store. The numbers have no gaps, so where the
// next is not there it is not kept any more. Those before a gap, which the sweep
// makes where a clock was turned, are given first.
func (s *Store) Changes(ctx context.Context, o ext.Owner, since ext.Seq, limit int, _ ext.Moment) (feed ext.Feed, err error) {
	if err := o.Check(); err != nil {
		return ext.Feed{}, err
	}
	var (
		last          ext.Seq
		seq, revision *int64 // NULL, as all that follows, when there is no change
		op, namespace *string
		key           *string
		at            pgtype.Timestamptz
	)
	err = s.db.ForEach(ctx, sqlChanges, []any{string(o.Tenant), string(o.Install), int64(since), int64(limit)},
		func() { feed = ext.Feed{} },
		func() error {
			feed.Last = last
			if seq == nil || ext.Seq(*seq) != since+ext.Seq(len(feed.Changes))+1 {
				return nil
			}
			feed.Changes = append(feed.Changes, ext.Change{
				Seq: ext.Seq(*seq), Op: ext.ChangeOp(*op), Namespace: ext.Namespace(*namespace), Key: ext.Key(*key),
				Revision: ext.Revision(*revision), At: momentOf(at),
			})
			return nil
		}, &last, &seq, &op, &namespace, &key, &revision, &at)
	if err != nil {
		return ext.Feed{}, err
	}
	if len(feed.Changes) == 0 && since < feed.Last && limit > 0 {
		return ext.Feed{}, ext.ErrChangesGone
	}
	return feed, nil
}
