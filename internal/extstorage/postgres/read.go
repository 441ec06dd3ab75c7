package postgres

import (
	"cmp"
	"context"
	"math"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/canonjson"
	"holdfast/internal/db/pgdb"
	ext "holdfast/internal/extstorage"
)

// recordRow holds the destinations for a record.
type recordRow struct {
	ext.Record

	created, updated, expires pgtype.Timestamptz
	value, metadata           []byte // in the engine's format; empty if not selected
}

// columns returns scan destinations for header. The driver is slow with other types.
func (r *recordRow) columns() []any {
	return []any{(*int64)(&r.Revision), (*int64)(&r.Seq), &r.created, &r.updated, &r.expires, &r.ValueBytes, &r.MetadataBytes}
}

// record decodes the last row read.
func (r *recordRow) record() (ext.Record, error) {
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
	return get(func(st pgdb.Statement, args []any, dest ...any) (bool, error) {
		return s.db.QueryRow(ctx, st, args, dest...)
	}, o, ns, key, at)
}

// query reads a row, within a transaction or outside.
type query func(st pgdb.Statement, args []any, dest ...any) (found bool, err error)

// get returns ErrNoRecord for a missing record and for a record that has expired at a time.
func get(run query, o ext.Owner, ns ext.Namespace, key ext.Key, at ext.Moment) (ext.Record, error) {
	r := recordRow{Record: ext.Record{Namespace: ns, Key: key}}
	found, err := run(sqlGet, []any{string(o.Tenant), string(o.Install), string(ns), string(key), now(at)},
		append(r.columns(), &r.value, &r.metadata)...)
	if err != nil {
		return ext.Record{}, err
	}
	if !found {
		return ext.Record{}, ext.ErrNoRecord
	}
	return r.record()
}

// List implements extstorage.Store.
func (s *Store) List(ctx context.Context, o ext.Owner, q ext.Query) (ext.Page, error) {
	if err := o.Check(); err != nil {
		return ext.Page{}, err
	}
	after, end := string(q.After), top
	if successor, ok := ext.Successor(q.Prefix); ok {
		end = successor
	}
	statement := &sqlList
	if q.Reverse {
		statement = &sqlListReverse
		if after != "" {
			after, end = "", min(end, after)
		}
	}
	return s.page(ctx, &q, pages{
		statement: statement.Statement,
		args:      func(limit, sent int64) []any { return statement.Args(listPage{o, q, after, end, limit, sent}) },
		row:       recordRow{Record: ext.Record{Namespace: q.Namespace}},
		dest: func(r *recordRow) []any {
			return append(append([]any{(*string)(&r.Key)}, r.columns()...), &r.value, &r.metadata)
		},
	})
}

// listPage holds the parameters for listing.
type listPage struct {
	owner ext.Owner
	ext.Query
	after, before string
	// values above this number of bytes are left out
	limit, sent int64
}

// args names and orders the parameters for pgdb.
func (p listPage) args() []pgdb.Arg {
	return []pgdb.Arg{
		{Param: "tenant uuid", Value: string(p.owner.Tenant)},
		{Param: "install uuid", Value: string(p.owner.Install)},
		{Param: "namespace text", Value: string(p.Namespace)},
		{Param: "after text", Value: p.after},
		{Param: "from text", Value: p.Prefix},
		{Param: "before text", Value: p.before},
		{Param: "values boolean", Value: p.Values},
		{Param: "metadata boolean", Value: p.Metadata},
		{Param: "now timestamptz", Value: now(p.Now)},
		{Param: "limit bigint", Value: p.limit},
		{Param: "sent bigint", Value: p.sent},
	}
}

// Export implements extstorage.Store.
func (s *Store) Export(ctx context.Context, o ext.Owner, q ext.ExportQuery) (ext.Page, error) {
	if err := o.Check(); err != nil {
		return ext.Page{}, err
	}
	whole := q.Query()
	return s.page(ctx, &whole, pages{
		statement: sqlExport.Statement,
		args:      func(limit, sent int64) []any { return sqlExport.Args(exportPage{o, q, limit, sent}) },
		dest: func(r *recordRow) []any {
			return append(append([]any{(*string)(&r.Namespace), (*string)(&r.Key)}, r.columns()...), &r.value, &r.metadata)
		},
	})
}

// exportPage holds the parameters for a page of an export.
type exportPage struct {
	owner ext.Owner
	ext.ExportQuery
	limit, sent int64
}

// args names and orders the parameters for pgdb.
func (p exportPage) args() []pgdb.Arg {
	return []pgdb.Arg{
		{Param: "tenant uuid", Value: string(p.owner.Tenant)},
		{Param: "install uuid", Value: string(p.owner.Install)},
		{Param: "after_namespace text", Value: string(p.After.Namespace)},
		{Param: "after_key text", Value: string(p.After.Key)},
		{Param: "now timestamptz", Value: now(p.Now)},
		{Param: "limit bigint", Value: p.limit},
		{Param: "sent bigint", Value: p.sent},
	}
}

// pages reads a kind of page: a list or an export.
type pages struct {
	statement pgdb.Statement
	// for a number of records and the largest value to send
	args func(limit, sent int64) []any
	row  recordRow
	dest func(*recordRow) []any
}

// page reads a page in one or two queries. The first query returns all values that are so small that any number of
// them fit. It costs a fifth of a running sum in SQL. If the page contains larger values, the second query returns all
// values.
func (s *Store) page(ctx context.Context, q *ext.Query, of pages) (ext.Page, error) {
	r := of.row
	limit, sent := q.Limit, int64(cmp.Or(q.Bytes, ext.PageBytes)/q.Limit)
	for {
		var page ext.Page
		var end ext.PageEnd
		var withheld bool
		err := s.db.ForEach(ctx, of.statement, of.args(int64(limit)+1, sent), func() {
			page = ext.Page{Records: make([]ext.Record, 0, min(limit, ext.MaxPage))}
			end, withheld = ext.NewPageEnd(limit, q.Bytes), false
		}, func() error {
			if page.More = page.More || !end.Takes(q.Size(r.ValueBytes, r.MetadataBytes)); page.More {
				return nil
			}
			withheld = withheld || q.Values && r.ValueBytes > sent
			rec, err := r.record()
			page.Records = append(page.Records, rec)
			return err
		}, of.dest(&r)...)
		if err != nil {
			return ext.Page{}, err
		}
		if !withheld {
			return page, nil
		}
		limit, sent = len(page.Records), math.MaxInt64
	}
}

// Changes treats a missing next number as swept. Sweeping after the clock was set back may leave a gap; changes before
// it are returned first.
func (s *Store) Changes(ctx context.Context, o ext.Owner, since ext.Seq, limit int) (feed ext.Feed, err error) {
	if err := o.Check(); err != nil {
		return ext.Feed{}, err
	}
	var (
		last          ext.Seq
		seq, revision *int64 // NULL, like the columns below, if there is no change
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
