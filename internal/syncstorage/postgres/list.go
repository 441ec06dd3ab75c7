package postgres

import (
	"context"
	"errors"
	"iter"
	"math"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/fault"
	ss "holdfast/internal/syncstorage"
)

// streamFrom is the size of a collection, in bytes of payload, from which on
// whole records are counted first and then streamed. Below it they are
// gathered in memory, which spares the server the counting.
const streamFrom = 8 << 20

// List implements syncstorage.Store.
func (s *Store) List(ctx context.Context, o ss.Owner, q *ss.Query) (*ss.Listing, error) {
	if err := o.CheckUID(); err != nil {
		return nil, err
	}
	coll, err := s.lookup(ctx, q.Collection)
	if err != nil {
		return nil, err
	}
	statement, args := arguments(o, coll, q)
	rows, err := s.db.Stream(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	r := &reader{q: q, rows: rows}
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

// noIndex is what stands in the place of a sortindex that is not there.
const noIndex = -10_000_000_000

// arguments is a query as a statement.
func arguments(o ss.Owner, coll int32, q *ss.Query) (pgdb.Statement, []any) {
	orElse := func(t ss.Optional[ss.Timestamp], otherwise pgtype.Timestamp) pgtype.Timestamp {
		if t.Set {
			return moment(t.Value)
		}
		return otherwise
	}
	large, limit := int64(math.MaxInt64), pgtype.Int8{}
	if q.Full {
		large = streamFrom
	}
	if q.Limit.Set {
		limit = pgtype.Int8{Int64: int64(min(q.Limit.Value, math.MaxInt32)), Valid: true} // the statement adds to it
	}
	args := []any{o.UID, coll, moment(q.Now), q.Full, large,
		orElse(q.If.ModifiedSince, always), orElse(q.If.UnmodifiedSince, never),
		orElse(q.Newer, always), orElse(q.Older, never),
		behind(q), q.Offset.ID, limit, int64(q.Offset.Skip)}
	if q.IDs == nil {
		return lists[q.Sort][0], args
	}
	return lists[q.Sort][1], append(args, q.IDs)
}

// behind is the key of the record that the page starts after, or one before
// all others.
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

// reader makes a listing of the rows of its statement.
type reader struct {
	q    *ss.Query
	rows *pgdb.Rows

	collection pgtype.Timestamp
	records    pgtype.Int8 // on the page, the one too many included; only when large
	last       row         // of the page; only when large and there is another page

	row     row
	payload pgtype.DriverBytes // of the row, until the next
}

// row is a record without its payload. It is not valid where the join found
// none.
type row struct {
	id        pgtype.Text
	sortindex pgtype.Int8
	modified  pgtype.Timestamp
}

func (r *row) bso() ss.BSO {
	return ss.BSO{ID: r.id.String, SortIndex: index(r.sortindex), Modified: stamp(r.modified)}
}

func (r *reader) listing() (*ss.Listing, error) {
	if !r.rows.Next() { // there is no such collection
		if err := r.rows.Err(); err != nil {
			return nil, err
		}
		if err := r.q.If.Check(0); err != nil {
			return nil, err
		}
		return r.gathered(nil), nil
	}
	err := r.rows.Scan(&r.collection, &r.records, &r.last.id, &r.last.sortindex, &r.last.modified,
		&r.row.id, &r.row.sortindex, &r.row.modified, &r.payload)
	if err != nil {
		return nil, err
	}
	if err := r.q.If.Check(stamp(r.collection)); err != nil {
		r.rows.Next() // the statement has found no more, but must hear so
		return nil, err
	}
	if r.records.Valid {
		return r.streamed(), nil
	}
	return r.gather()
}

// next goes to the next row; the columns of the collection do not change.
func (r *reader) next() (bool, error) {
	if !r.rows.Next() {
		return false, r.rows.Err()
	}
	return true, r.rows.Scan(nil, nil, nil, nil, nil, &r.row.id, &r.row.sortindex, &r.row.modified, &r.payload)
}

// must is next for a row that was counted.
func (r *reader) must() error {
	found, err := r.next()
	if err == nil && !found {
		err = fault.Wrap(fault.Internal, "internal error", errors.New("a listing has fewer rows than were counted"))
	}
	return err
}

// gather reads the page into memory.
func (r *reader) gather() (*ss.Listing, error) {
	var (
		found    []ss.BSO
		payloads heap
	)
	for more := r.row.id.Valid; more; {
		b := r.row.bso()
		b.Payload = payloads.keep(r.payload)
		found = append(found, b)
		var err error
		if more, err = r.next(); err != nil {
			return nil, err
		}
	}
	return r.gathered(found), nil
}

// heap is where payloads are copied to, many to a piece: an allocation for
// each, or one slice that grows, would be most of the work of a listing.
type heap struct{ piece []byte }

func (h *heap) keep(payload []byte) []byte {
	const size = 64 << 10
	if len(payload) > cap(h.piece)-len(h.piece) {
		h.piece = make([]byte, 0, max(size, len(payload)))
	}
	from := len(h.piece)
	h.piece = append(h.piece, payload...)
	return h.piece[from:len(h.piece):len(h.piece)]
}

// gathered is a listing from memory. It gives the connection back at once.
func (r *reader) gathered(found []ss.BSO) *ss.Listing {
	r.rows.Close()
	more := r.q.Limit.Set && len(found) > r.q.Limit.Value
	if more {
		found = found[:r.q.Limit.Value]
	}
	l := ss.NewListing(stamp(r.collection), len(found), func(yield func(*ss.BSO, error) bool) {
		for i := range found {
			if !yield(&found[i], nil) {
				return
			}
		}
	}, nil)
	switch {
	case more && len(found) > 0:
		l.ContinueAfter(ss.OffsetAfter(r.q.Sort, &found[len(found)-1]))
	case more: // a page of limit 0 starts again where it started
		l.ContinueAfter(r.q.Offset)
	}
	return l
}

// streamed is a listing that reads the page from the server as it goes.
func (r *reader) streamed() *ss.Listing {
	n := int(r.records.Int64)
	more := r.q.Limit.Set && n > r.q.Limit.Value
	if more {
		n = r.q.Limit.Value
	}
	l := ss.NewListing(stamp(r.collection), n, r.items(n), r.rows.Close)
	switch {
	case more && n > 0:
		last := r.last.bso()
		l.ContinueAfter(ss.OffsetAfter(r.q.Sort, &last))
	case more:
		l.ContinueAfter(r.q.Offset)
	}
	return l
}

// items yields the first n rows, of which the first has been read.
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
		// The record too many, and the end: otherwise Close would take the
		// statement for one that has to be stopped.
		for r.rows.Next() {
		}
	}
}
