package sqlite

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"

	ss "holdfast/internal/syncstorage"
)

// streamFrom is the size of a collection, in bytes, from which on a listing is
// counted first and then streamed. Below it the rows are read at once, which
// costs one statement instead of two or three.
const streamFrom = 8 << 20

// List implements syncstorage.Store.
func (s *Store) List(ctx context.Context, o ss.Owner, q *ss.Query) (*ss.Listing, error) {
	if err := o.CheckUID(); err != nil {
		return nil, err
	}
	c, release, err := s.db.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	l, err := s.list(c, o.UID, q, release)
	if err != nil {
		release()
		return nil, err
	}
	return l, nil
}

// list answers on the snapshot c, which it releases itself unless the listing
// streams from it.
func (s *Store) list(c *sqlite.Conn, user int64, q *ss.Query, release func()) (*ss.Listing, error) {
	id, err := s.lookup(c, q.Collection)
	if err != nil {
		return nil, err
	}
	var coll collection
	if id != ss.TombstoneID {
		if coll, _, err = one(c, sqlUserCollection, scanCollection, user, id); err != nil {
			return nil, err
		}
	}
	if err := q.If.Check(coll.Modified); err != nil {
		return nil, err
	}
	p := newPage(user, id, q, ss.Horizon(q.Now, coll.Modified))
	if q.Full && coll.Bytes > streamFrom {
		return p.stream(c, coll.Modified, release)
	}
	l, err := p.read(c, coll)
	if err == nil {
		release()
	}
	return l, err
}

// page is a query as SQL.
type page struct {
	q     *ss.Query
	where string // from FROM to ORDER BY
	args  []any
	limit int // -1: none
}

func newPage(user, coll int64, q *ss.Query, horizon ss.Timestamp) *page {
	p := &page{q: q, limit: -1}
	if q.Limit.Set {
		p.limit = q.Limit.Value
	}
	var sql strings.Builder
	sql.WriteString(` FROM bsos WHERE user_id = ? AND collection_id = ? AND (expiry IS NULL OR expiry > ?)`)
	p.args = append(p.args, user, coll, horizon)
	and := func(cond string, args ...any) {
		sql.WriteString(` AND ` + cond)
		p.args = append(p.args, args...)
	}
	if q.IDs != nil {
		ids, _ := json.Marshal(q.IDs) // strings always marshal
		and(`bso_id IN (SELECT value FROM json_each(?))`, string(ids))
	}
	if q.Newer.Set {
		and(`modified > ?`, q.Newer.Value)
	}
	if q.Older.Set {
		and(`modified < ?`, q.Older.Value)
	}
	at := q.Offset
	switch q.Sort {
	case ss.Newest:
		if at.After {
			and(`(modified, bso_id) < (?, ?)`, at.Modified, at.ID)
		}
		sql.WriteString(` ORDER BY modified DESC, bso_id DESC`)
	case ss.Oldest:
		if at.After {
			and(`(modified, bso_id) > (?, ?)`, at.Modified, at.ID)
		}
		sql.WriteString(` ORDER BY modified, bso_id`)
	case ss.ByIndex:
		switch {
		case at.After && at.SortIndex.Set:
			and(`(sortindex IS NULL OR (sortindex, bso_id) < (?, ?))`, at.SortIndex, at.ID)
		case at.After:
			and(`sortindex IS NULL AND bso_id < ?`, at.ID)
		}
		sql.WriteString(` ORDER BY sortindex DESC NULLS LAST, bso_id DESC`)
	}
	p.where = sql.String()
	return p
}

// rows is the statement for at most n rows from the skip-th on; n < 0: all.
func (p *page) rows(columns string, n, skip int) (string, []any) {
	return `SELECT ` + columns + p.where + ` LIMIT ? OFFSET ?`, append(slices.Clip(p.args), n, p.q.Offset.Skip+skip)
}

const (
	idColumns   = `bso_id, modified, sortindex`
	fullColumns = idColumns + `, payload`
)

func (p *page) columns() string {
	if p.q.Full {
		return fullColumns
	}
	return idColumns
}

func scanRow(r *sqlite.Stmt) ss.BSO {
	return ss.BSO{ID: r.ColumnText(0), Modified: ss.Timestamp(r.ColumnInt64(1)), SortIndex: optional(r, 2)}
}

// read answers from memory: one row more than asked for tells whether there is
// a next page.
func (p *page) read(c *sqlite.Conn, coll collection) (*ss.Listing, error) {
	n := p.limit
	if n >= 0 {
		n++
	}
	var (
		found    []ss.BSO
		payloads []byte
		ends     []int
	)
	if p.q.Full {
		payloads = make([]byte, 0, coll.share(n))
	}
	sql, args := p.rows(p.columns(), n, 0)
	err := each(c, sql, func(r *sqlite.Stmt) error {
		found = append(found, scanRow(r))
		if p.q.Full {
			from := len(payloads)
			payloads = slices.Grow(payloads, r.ColumnLen(3))[:from+r.ColumnLen(3)]
			r.ColumnBytes(3, payloads[from:])
			ends = append(ends, len(payloads))
		}
		return nil
	}, args...)
	if err != nil {
		return nil, err
	}
	from := 0
	for i, end := range ends {
		found[i].Payload = payloads[from:end:end]
		from = end
	}
	more := p.limit >= 0 && len(found) > p.limit
	if more {
		found = found[:p.limit]
	}
	l := ss.NewListing(coll.Modified, len(found), func(yield func(*ss.BSO, error) bool) {
		for i := range found {
			if !yield(&found[i], nil) {
				return
			}
		}
	}, nil)
	if more {
		l.ContinueAfter(p.next(found))
	}
	return l, nil
}

// share is how many bytes n of the collection's records have, if they are like
// the others; n < 0: all.
func (c collection) share(n int) int64 {
	if n < 0 || int64(n) >= c.Count {
		return c.Bytes
	}
	return c.Bytes * int64(n) / c.Count
}

// next is the offset behind the page; a page of limit 0 has no last record and
// starts again where it started.
func (p *page) next(found []ss.BSO) ss.Offset {
	if len(found) == 0 {
		return p.q.Offset
	}
	return ss.OffsetAfter(p.q.Sort, &found[len(found)-1])
}

// stream answers row by row from the snapshot, after counting the rows and
// finding the last on it.
func (p *page) stream(c *sqlite.Conn, modified ss.Timestamp, release func()) (*ss.Listing, error) {
	n := p.limit
	if n >= 0 {
		n++
	}
	inner, args := p.rows(`1`, n, 0)
	count, _, err := one(c, `SELECT count(*) FROM (`+inner+`)`, func(r *sqlite.Stmt) int { return r.ColumnInt(0) }, args...)
	if err != nil {
		return nil, err
	}
	more := p.limit >= 0 && count > p.limit
	if more {
		count = p.limit
	}
	l := ss.NewListing(modified, count, p.items(c, count), release)
	if !more {
		return l, nil
	}
	if count == 0 {
		l.ContinueAfter(p.q.Offset)
		return l, nil
	}
	sql, args := p.rows(idColumns, 1, count-1)
	last, _, err := one(c, sql, scanRow, args...)
	if err != nil {
		return nil, err
	}
	l.ContinueAfter(ss.OffsetAfter(p.q.Sort, &last))
	return l, nil
}

func (p *page) items(c *sqlite.Conn, count int) iter.Seq2[*ss.BSO, error] {
	return func(yield func(*ss.BSO, error) bool) {
		var payload []byte
		sql, args := p.rows(fullColumns, count, 0)
		stopped := false
		err := each(c, sql, func(r *sqlite.Stmt) error {
			b := scanRow(r)
			n := r.ColumnLen(3)
			payload = slices.Grow(payload[:0], n)[:n]
			r.ColumnBytes(3, payload)
			b.Payload = payload
			if !yield(&b, nil) {
				stopped = true
				return errStopped
			}
			return nil
		}, args...)
		if err != nil && !stopped {
			yield(nil, err)
		}
	}
}
