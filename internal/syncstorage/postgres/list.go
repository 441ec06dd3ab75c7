package postgres

import (
	"context"
	"errors"
	"iter"
	"math"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
)

// streamFrom is the number of payload bytes from which a page is counted first and then streamed, not gathered in
// memory.
const streamFrom = 1 << 20

// List implements syncstorage.Store.
func (s *Store) List(ctx context.Context, o ss.Owner, q *ss.Query) (*ss.Listing, error) {
	if err := o.CheckUID(); err != nil {
		return nil, err
	}
	coll, err := s.lookup(ctx, q.Collection)
	if err != nil {
		return nil, err
	}
	l, err := s.list(ctx, o, coll, q, streamFrom)
	if errors.Is(err, errLarge) {
		l, err = s.list(ctx, o, coll, q, -1)
	}
	return l, err
}

// errLarge makes List run again and stream: the estimate was too low.
var errLarge = errcode.New(errcode.Internal, "the page is larger than expected")

// list opens a page. large is the number of bytes from which it is streamed; -1: always.
func (s *Store) list(ctx context.Context, o ss.Owner, coll int32, q *ss.Query, large int64) (*ss.Listing, error) {
	statement, args := arguments(o, coll, q, large)
	rows, err := s.db.Stream(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	r := &reader{q: q, rows: rows, pages: &s.pages}
	l, err := r.listing()
	if err != nil {
		rows.Close()
		return nil, err
	}
	return l, nil
}

var (
	always = pgtype.Timestamp{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	never  = pgtype.Timestamp{InfinityModifier: pgtype.Infinity, Valid: true}
)

const noIndex = -10_000_000_000

// arguments chooses the statement. Pages without payloads are never large.
func arguments(o ss.Owner, coll int32, q *ss.Query, large int64) (pgdb.Statement, []any) {
	if !q.Full && large >= 0 {
		large = math.MaxInt64
	}
	statement := &lists[q.Sort][0]
	if q.IDs != nil {
		statement = &lists[q.Sort][1]
	}
	return statement.Statement, statement.Args(listed{o, coll, *q, large})
}

// listed holds the parameters for a list.
type listed struct {
	owner ss.Owner
	coll  int32
	ss.Query
	// bytes from which the page is streamed
	large int64
}

// args names and orders the parameters for pgdb.
func (l listed) args() []pgdb.Arg {
	orElse := func(t ss.Optional[ss.Timestamp], otherwise pgtype.Timestamp) pgtype.Timestamp {
		if t.Set {
			return moment(t.Value)
		}
		return otherwise
	}
	limit := pgtype.Int8{}
	if l.Limit.Set {
		limit = pgtype.Int8{Int64: int64(min(l.Limit.Value, math.MaxInt32)), Valid: true}
	}
	return []pgdb.Arg{
		{Param: "user bigint", Value: l.owner.UID},
		{Param: "coll integer", Value: l.coll},
		{Param: "now timestamp", Value: moment(l.Now)},
		{Param: "full boolean", Value: l.Full},
		{Param: "large bigint", Value: l.large},
		{Param: "modified_since timestamp", Value: orElse(l.If.ModifiedSince, always)},
		{Param: "unmodified_since timestamp", Value: orElse(l.If.UnmodifiedSince, never)},
		{Param: "newer timestamp", Value: orElse(l.Newer, always)},
		{Param: "older timestamp", Value: orElse(l.Older, never)},
		{Param: "behind", Value: behind(&l.Query)},
		{Param: "behind_id text", Value: l.Offset.ID},
		{Param: "limit bigint", Value: limit},
		{Param: "skip bigint", Value: int64(l.Offset.Skip)},
	}
}

// argsByID adds the IDs.
func (l listed) argsByID() []pgdb.Arg {
	return append(l.args(), pgdb.Arg{Param: "ids text[]", Value: l.IDs})
}

// behind returns the value after which a page begins, or a value before all records for the first page.
func behind(q *ss.Query) any {
	at := q.Offset
	switch {
	case q.Sort == ss.ByIndex && !at.After:
		return int64(math.MaxInt64)
	case q.Sort == ss.ByIndex && !at.SortIndex.Set:
		return int64(noIndex)
	case q.Sort == ss.ByIndex:
		return at.SortIndex.Value
	case at.After:
		return moment(at.Modified)
	case q.Sort == ss.Oldest:
		return always
	default:
		return never
	}
}

// reader reads a page's rows. Each row repeats the collection's stamp and, on large pages, the number of records and
// the last record.
type reader struct {
	q     *ss.Query
	rows  *pgdb.Rows
	pages *ss.Pages

	collection pgtype.Timestamp
	// set only if the page is streamed
	records pgtype.Int8
	last    bsoRow

	// the current record; no ID: the page is empty
	row     bsoRow
	payload pgtype.DriverBytes
}

// bsoRow holds the destinations for a record without its payload.
type bsoRow struct {
	id        pgtype.Text
	sortindex pgtype.Int8
	modified  pgtype.Timestamp
}

// bso decodes the last row read.
func (r *bsoRow) bso() ss.BSO {
	return ss.BSO{ID: r.id.String, SortIndex: index(r.sortindex), Modified: stamp(r.modified)}
}

// listing reads the first row, checks the precondition, and gathers or streams the page.
func (r *reader) listing() (*ss.Listing, error) {
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return nil, err
		}
		if err := r.q.If.Check(0); err != nil {
			return nil, err
		}
		return r.gathered(r.pages.New()), nil
	}
	err := r.rows.Scan(&r.collection, &r.records, &r.last.id, &r.last.sortindex, &r.last.modified,
		&r.row.id, &r.row.sortindex, &r.row.modified, &r.payload)
	if err != nil {
		return nil, err
	}
	if err := r.q.If.Check(stamp(r.collection)); err != nil {
		r.rows.Next()
		return nil, err
	}
	if r.records.Valid {
		return r.streamed(), nil
	}
	return r.gather()
}

// next reads a row, and returns false after the last.
func (r *reader) next() (bool, error) {
	if !r.rows.Next() {
		return false, r.rows.Err()
	}
	return true, r.rows.Scan(nil, nil, nil, nil, nil, &r.row.id, &r.row.sortindex, &r.row.modified, &r.payload)
}

// must reads a row that was counted.
func (r *reader) must() error {
	found, err := r.next()
	if err == nil && !found {
		err = errcode.Wrap(errcode.Internal, "internal error", errors.New("a list has fewer rows than were counted"))
	}
	return err
}

// gather reads the page into memory, or returns errLarge.
func (r *reader) gather() (*ss.Listing, error) {
	g := r.pages.New()
	for more := r.row.id.Valid; more; {
		err := error(errLarge)
		if g.Fits(len(r.payload)) {
			copy(g.Add(r.row.bso(), len(r.payload)), r.payload)
			more, err = r.next()
		}
		if err != nil {
			g.Drop()
			return nil, err
		}
	}
	return r.gathered(g), nil
}

// gathered closes the connection before the page is sent.
func (r *reader) gathered(g *ss.Page) *ss.Listing {
	r.rows.Close()
	return g.Listing(stamp(r.collection), r.q)
}

// streamed returns a page that holds its connection until it is sent.
func (r *reader) streamed() *ss.Listing {
	n, more := r.q.Page(int(r.records.Int64))
	l := ss.NewListing(stamp(r.collection), n, r.items(n), r.rows.Close)
	if more {
		var last *ss.BSO
		if n > 0 {
			b := r.last.bso()
			last = &b
		}
		l.Turn(r.q, last)
	}
	return l
}

// items yields n records; the first row is already read.
func (r *reader) items(n int) iter.Seq2[*ss.BSO, error] {
	return func(yield func(*ss.BSO, error) bool) {
		for i := range n {
			if i > 0 {
				if err := r.must(); err != nil {
					yield(nil, err)
					return
				}
			}
			b := r.row.bso()
			b.Payload = r.payload
			if !yield(&b, nil) {
				return
			}
		}
		// Read to the end, because otherwise Close would cancel the statement.
		for r.rows.Next() {
		}
	}
}
