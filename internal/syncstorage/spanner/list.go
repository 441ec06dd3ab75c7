package spanner

import (
	"context"
	"iter"
	"math"
	"time"

	"cloud.google.com/go/spanner"

	"holdfast/internal/db/spannerdb"
	ss "holdfast/internal/syncstorage"
)

const noIndex = -10_000_000_000

// List implements syncstorage.Store.
func (s *Store) List(ctx context.Context, o ss.Owner, q *ss.Query) (*ss.Listing, error) {
	if err := checkOwner(o); err != nil {
		return nil, err
	}
	coll, err := s.lookup(ctx, q.Collection)
	switch {
	case err != nil:
		return nil, err
	case coll == unknown:
		if err := q.If.Check(0); err != nil {
			return nil, err
		}
		return s.pages.New().Listing(0, q), nil
	}
	statement, params := listing(o, coll, q)
	rows, err := s.db.Stream(ctx, statement, params)
	if err != nil {
		return nil, err
	}
	r := &reader{q: q, rows: rows, pages: &s.pages, statement: statement, params: params}
	l, err := r.listing()
	if err != nil {
		rows.Close()
		return nil, err
	}
	return l, nil
}

// listing returns the statement for a query, without conditions that the query does not set.
func listing(o ss.Owner, coll int64, q *ss.Query) (spannerdb.Statement, spannerdb.Params) {
	p := of(o, spannerdb.Params{"coll": coll, "now": q.Now.Time(), "full": q.Full})
	order := listOrders[q.Sort]
	where := ``
	add := func(condition, name string, value any) {
		where += ` AND ` + condition
		p[name] = value
	}
	if q.IDs != nil {
		add(`b.bso_id IN UNNEST(@ids)`, "ids", q.IDs)
	}
	if q.Newer.Set {
		add(`b.modified > @newer`, "newer", q.Newer.Value.Time())
	}
	if q.Older.Set {
		add(`b.modified < @older`, "older", q.Older.Value.Time())
	}
	if q.If.ModifiedSince.Set {
		add(`c.modified > @modified_since`, "modified_since", q.If.ModifiedSince.Value.Time())
	}
	if q.If.UnmodifiedSince.Set {
		add(`c.modified <= @unmodified_since`, "unmodified_since", q.If.UnmodifiedSince.Value.Time())
	}
	if at := q.Offset; at.After {
		after := any(at.Modified.Time())
		if q.Sort == ss.ByIndex {
			p["none"] = int64(noIndex)
			after = int64(noIndex)
			if at.SortIndex.Set {
				after = at.SortIndex.Value
			}
		}
		p["after_id"] = at.ID
		add(order.after, "after", after)
	}
	page := ``
	if q.Limit.Set || q.Offset.Skip > 0 {
		p["limit"], p["skip"] = int64(math.MaxInt32), int64(q.Offset.Skip)
		if q.Limit.Set {
			p["limit"] = min(int64(q.Limit.Value), math.MaxInt32) + 1
		}
		page = ` ORDER BY ` + order.by + ` LIMIT @limit OFFSET @skip`
	}
	return spannerdb.Statement{Name: "sync.list", SQL: `
		WITH c AS (SELECT modified FROM user_collections WHERE fxa_uid = @uid AND fxa_kid = @kid AND collection_id = @coll)
		SELECT 0 AS part, '' AS bso_id, CAST(NULL AS INT64) AS sortindex, modified, CAST(NULL AS STRING) AS payload FROM c
		UNION ALL
		SELECT 1, bso_id, sortindex, modified, payload FROM (
			SELECT b.bso_id, b.sortindex, b.modified, IF(@full, b.payload, NULL) AS payload FROM bsos b CROSS JOIN c
			WHERE b.fxa_uid = @uid AND b.fxa_kid = @kid AND b.collection_id = @coll AND b.expiry > GREATEST(@now, c.modified)` + where + page + `
		)
		ORDER BY part, ` + order.by}, p
}

// reader reads a page's rows: first the collection's, then the records.
type reader struct {
	q         *ss.Query
	rows      *spannerdb.Rows
	pages     *ss.Pages
	statement spannerdb.Statement
	params    spannerdb.Params

	collection ss.Timestamp
	page       *ss.Page
}

// scan reads a row. record is false in the collection's row.
func scan(row *spanner.Row) (b ss.BSO, payload string, record bool, err error) {
	var (
		part      int64
		sortindex spanner.NullInt64
		modified  time.Time
		text      spanner.NullString
	)
	err = row.Columns(&part, &b.ID, &sortindex, &modified, &text)
	b.SortIndex, b.Modified = optional(sortindex), stamp(modified)
	return b, text.StringVal, part == 1, err
}

// next reads a record, and returns false after the last.
func (r *reader) next() (b ss.BSO, payload string, found bool, err error) {
	row, err := r.rows.Next()
	if err != nil || row == nil {
		return b, "", false, err
	}
	b, payload, _, err = scan(row)
	return b, payload, err == nil, err
}

// listing gathers the page, or counts the rest and streams it if the page is large.
func (r *reader) listing() (_ *ss.Listing, err error) {
	r.page = r.pages.New()
	defer func() {
		if err != nil {
			r.page.Drop()
		}
	}()
	head, _, found, err := r.next()
	if err != nil {
		return nil, err
	}
	r.collection = head.Modified
	if err := r.q.If.Check(r.collection); err != nil {
		return nil, err
	}
	for found {
		var (
			b       ss.BSO
			payload string
		)
		if b, payload, found, err = r.next(); err != nil {
			return nil, err
		}
		if found {
			copy(r.page.Add(b, len(payload)), payload)
		}
		if r.page.Size() > ss.GatherMax {
			return r.streamed()
		}
	}
	r.rows.Close()
	return r.page.Listing(r.collection, r.q), nil
}

// streamed counts the page's records with a second query in the same snapshot, since the header X-Weave-Records
// precedes them.
func (r *reader) streamed() (*ss.Listing, error) {
	var (
		read int
		last *ss.BSO
	)
	r.params["full"] = false
	count := spannerdb.Statement{Name: "sync.list_count", SQL: r.statement.SQL}
	err := r.rows.Beside(count, r.params, func(row *spanner.Row) error {
		b, _, record, err := scan(row)
		if err != nil || !record {
			return err
		}
		read++
		if n, _ := r.q.Page(read); n == read {
			last = &b
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	n, more := r.q.Page(read)
	l := ss.NewListing(r.collection, n, r.items(n), func() {
		r.rows.Close()
		r.page.Drop()
	})
	l.Memory = r.page.Size()
	if more {
		l.Turn(r.q, last)
	}
	return l, nil
}

// items yields the gathered records and then reads the others.
func (r *reader) items(n int) iter.Seq2[*ss.BSO, error] {
	return func(yield func(*ss.BSO, error) bool) {
		for i := range r.page.Records() {
			if n--; n < 0 || !yield(&r.page.Records()[i], nil) {
				return
			}
		}
		for ; n > 0; n-- {
			b, payload, more, err := r.next()
			if err == nil && !more {
				err = errShort
			}
			if err != nil {
				yield(nil, err)
				return
			}
			b.Payload = []byte(payload)
			if !yield(&b, nil) {
				return
			}
		}
	}
}
