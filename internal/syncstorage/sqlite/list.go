package sqlite

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	ss "holdfast/internal/syncstorage"
)

// streamFrom is the number of payload bytes from which a page is counted first and then streamed. Gathering smaller
// pages takes one statement instead of three.
const streamFrom = 1 << 20

// List implements syncstorage.Store.
func (s *Store) List(ctx context.Context, o ss.Owner, q *ss.Query) (*ss.Listing, error) {
	if err := o.CheckUID(); err != nil {
		return nil, err
	}
	snapshot, err := s.db.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	var l *ss.Listing
	err = snapshot.Read(func(c *sqlite.Conn) (err error) {
		l, err = s.list(c, snapshot, o.UID, q)
		return err
	})
	if err != nil {
		snapshot.Release()
		return nil, err
	}
	return l, nil
}

// list opens a page in a snapshot, which the Listing closes. c is the snapshot's connection.
func (s *Store) list(c *sqlite.Conn, snapshot *sqlitedb.Snapshot, user int64, q *ss.Query) (*ss.Listing, error) {
	id, err := s.lookup(c, q.Collection)
	if err != nil {
		return nil, err
	}
	var coll collection
	if id != ss.TombstoneID {
		if coll, _, err = sqlitedb.QueryRow(c, sqlUserCollection, scanCollection, user, id); err != nil {
			return nil, err
		}
	}
	if err := q.If.Check(coll.Modified); err != nil {
		return nil, err
	}
	p := newPage(user, id, q, ss.Horizon(q.Now, coll.Modified))
	if q.Full && coll.share(p.most()) > streamFrom {
		return p.stream(c, snapshot, coll.Modified)
	}
	g := s.pages.New()
	whole, err := p.gather(c, g)
	if err != nil || !whole {
		g.Drop()
	}
	switch {
	case err != nil:
		return nil, err
	case !whole:
		return p.stream(c, snapshot, coll.Modified)
	}
	snapshot.Release()
	return g.Listing(coll.Modified, q), nil
}

// page is a query for a page.
type page struct {
	q *ss.Query
	// the statement from FROM on
	where string
	args  []any
	// records per page; -1: no limit
	limit int
}

// newPage builds the conditions. It leaves out expired records.
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
		ids, _ := json.Marshal(q.IDs)
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
			and(`(sortindex IS NULL OR (sortindex, bso_id) < (?, ?))`, at.SortIndex.Value, at.ID)
		case at.After:
			and(`sortindex IS NULL AND bso_id < ?`, at.ID)
		}
		sql.WriteString(` ORDER BY sortindex DESC NULLS LAST, bso_id DESC`)
	}
	p.where = sql.String()
	return p
}

// rows returns a statement for n records after the first skip; n = -1: all.
func (p *page) rows(columns string, n, skip int) (string, []any) {
	// With a bare parameter SQLite would compile the statement again for each value.
	bounds := ` LIMIT ? + 0 OFFSET ? + 0`
	args := append(slices.Clip(p.args), n, p.q.Offset.Skip+skip)
	if columns == fullColumns && (p.q.Sort == ss.ByIndex || p.q.IDs != nil) {
		// No index has this order, so SQLite sorts in memory. Let it sort only row IDs, without payloads.
		return `SELECT ` + columns + ` FROM (SELECT rowid AS sorted` + p.where + bounds + `) CROSS JOIN bsos ON bsos.rowid = sorted`, args
	}
	return `SELECT ` + columns + p.where + bounds, args
}

const (
	idColumns   = `bso_id, modified, sortindex`
	fullColumns = idColumns + `, payload`
)

// columns depends on whether the client wants payloads.
func (p *page) columns() string {
	if p.q.Full {
		return fullColumns
	}
	return idColumns
}

// scanRow reads idColumns.
func scanRow(r *sqlite.Stmt) ss.BSO {
	return ss.BSO{ID: r.ColumnText(0), Modified: ss.Timestamp(r.ColumnInt64(1)), SortIndex: optional(r, 2)}
}

// most returns the largest possible number of records, -1 if unknown.
func (p *page) most() int {
	if p.q.IDs != nil && (p.limit < 0 || len(p.q.IDs) < p.limit) {
		return len(p.q.IDs)
	}
	return p.limit
}

// gather reads the page into memory, with an additional record to detect a next page. It returns false if the page is
// too large.
func (p *page) gather(c *sqlite.Conn, g *ss.Page) (whole bool, err error) {
	n := p.limit
	if n >= 0 {
		n++
	}
	sql, args := p.rows(p.columns(), n, 0)
	whole = true
	err = sqlitedb.ForEach(c, sql, func(r *sqlite.Stmt) error {
		size := 0
		if p.q.Full {
			size = r.ColumnLen(3)
		}
		if whole = g.Fits(size); !whole {
			return errStopped
		}
		payload := g.Add(scanRow(r), size)
		if p.q.Full {
			r.ColumnBytes(3, payload)
		}
		return nil
	}, args...)
	if !whole {
		err = nil
	}
	return whole, err
}

// share estimates the bytes of n records from the average.
func (c collection) share(n int) int64 {
	if n < 0 || int64(n) >= c.Count {
		return c.Bytes
	}
	return c.Bytes * int64(n) / c.Count
}

// stream counts the page's records first, since the header X-Weave-Records precedes them.
func (p *page) stream(c *sqlite.Conn, snapshot *sqlitedb.Snapshot, modified ss.Timestamp) (*ss.Listing, error) {
	n := p.limit
	if n >= 0 {
		n++
	}
	inner, args := p.rows(`1`, n, 0)
	count, _, err := sqlitedb.QueryRow(c, `SELECT count(*) FROM (`+inner+`)`, func(r *sqlite.Stmt) int { return r.ColumnInt(0) }, args...)
	if err != nil {
		return nil, err
	}
	count, more := p.q.Page(count)
	l := ss.NewListing(modified, count, p.items(snapshot, count), snapshot.Release)
	var last *ss.BSO
	if more && count > 0 {
		sql, args := p.rows(idColumns, 1, count-1)
		b, _, err := sqlitedb.QueryRow(c, sql, scanRow, args...)
		if err != nil {
			return nil, err
		}
		last = &b
	}
	if more {
		l.Turn(p.q, last)
	}
	snapshot.Stream()
	return l, nil
}

// items reads the records again, in the same snapshot, while they are sent.
func (p *page) items(snapshot *sqlitedb.Snapshot, count int) iter.Seq2[*ss.BSO, error] {
	return func(yield func(*ss.BSO, error) bool) {
		var payload []byte
		sql, args := p.rows(p.columns(), count, 0)
		stopped := false
		err := snapshot.Read(func(c *sqlite.Conn) error {
			return sqlitedb.ForEach(c, sql, func(r *sqlite.Stmt) error {
				b := scanRow(r)
				if p.q.Full {
					n := r.ColumnLen(3)
					payload = slices.Grow(payload[:0], n)[:n]
					r.ColumnBytes(3, payload)
					b.Payload = payload
				}
				if !yield(&b, nil) {
					stopped = true
					return errStopped
				}
				return nil
			}, args...)
		})
		if err != nil && !stopped {
			yield(nil, err)
		}
	}
}
