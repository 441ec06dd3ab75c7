package syncstorage

import (
	"encoding/base64"
	"iter"
	"strconv"
	"strings"

	"holdfast/internal/fault"
)

// Sort is the order of a listing. Ties are broken by id, so every order is
// total and paging neither repeats nor drops a record.
type Sort uint8

// The orders of the protocol; a request without one gets Newest.
const (
	Newest  Sort = iota // modified descending, id descending
	Oldest              // modified ascending, id ascending
	ByIndex             // sortindex descending, records without one last, id descending
)

// ParseSort reads the sort query argument.
func ParseSort(s string) (Sort, bool) {
	switch s {
	case "newest":
		return Newest, true
	case "oldest":
		return Oldest, true
	case "index":
		return ByIndex, true
	}
	return Newest, false
}

// Query selects records of one collection.
type Query struct {
	Collection string
	IDs        []string // nil: all; never empty
	Newer      Optional[Timestamp]
	Older      Optional[Timestamp] // both bounds are strict
	Full       bool                // whole records rather than their ids
	Sort       Sort
	Limit      Optional[int] // at least 0
	Offset     Offset
	If         Precondition
	Now        Timestamp
}

// Check refuses what the protocol calls a bad query.
func (q *Query) Check() error {
	if q.IDs != nil {
		if len(q.IDs) == 0 {
			return fault.New(fault.Invalid, "ids is empty: expected record IDs separated by commas")
		}
		if len(q.IDs) > MaxIDsInQuery {
			return fault.Newf(fault.Invalid, "ids has more than %d record IDs", MaxIDsInQuery)
		}
		for _, id := range q.IDs {
			if !ValidID(id) {
				return fault.New(fault.Invalid, "ids contains an invalid record ID")
			}
		}
	}
	return q.Offset.check(q)
}

// Listing is the answer to a Query: stamp, count and records are of one
// snapshot. The caller ranges over Items at most once and must call Close.
type Listing struct {
	Modified Timestamp // of the collection; 0 when it does not exist
	Records  int       // how many Items there are
	Next     Offset    // where the next page starts; the zero Offset when there is none
	More     bool      // there is a next page

	// Items yields the records without their expiry, which no answer shows,
	// and unless the query was Full with nothing but ID to rely on. A record
	// and its payload are valid until the next one is asked for. An error ends
	// the sequence.
	Items iter.Seq2[*BSO, error]

	// Gathered says that the records are in memory and nothing of the engine
	// is held for them.
	Gathered bool

	// Memory is how many bytes of records are in memory until Close.
	Memory int

	release func()
}

// NewListing is for backends. release, which may be nil, gives back what Items
// reads from.
func NewListing(modified Timestamp, records int, items iter.Seq2[*BSO, error], release func()) *Listing {
	return &Listing{Modified: modified, Records: records, Items: items, release: release}
}

// Close gives back what the listing holds; a second call does nothing.
func (l *Listing) Close() {
	if l.release != nil {
		l.release()
		l.release = nil
	}
}

// ContinueAfter makes the listing one with a next page, which starts after the
// record that is the last of this one.
func (l *Listing) ContinueAfter(next Offset) { l.Next, l.More = next, true }

// Page is how many of the found records are on the page. Backends look for one
// more than the limit, which tells whether there is a next page.
func (q *Query) Page(found int) (n int, more bool) {
	if q.Limit.Set && found > q.Limit.Value {
		return q.Limit.Value, true
	}
	return found, false
}

// Turn makes the listing one with a next page, behind the last record of this
// one. A page of limit 0 has none, and the next starts where it started.
func (l *Listing) Turn(q *Query, last *BSO) {
	if last == nil {
		l.ContinueAfter(q.Offset)
		return
	}
	l.ContinueAfter(OffsetAfter(q.Sort, last))
}

// Offset is where a page starts: behind a record, by its place in the order,
// so that a page is right whatever is written meanwhile; or behind a number of
// rows, which is what a person types. Clients see an opaque token.
type Offset struct {
	Skip      int // rows; used when After is false
	After     bool
	Modified  Timestamp       // of the record, for Newest and Oldest
	SortIndex Optional[int64] // of the record, for ByIndex
	ID        string          // of the record
	sort      Sort            // the order that the token was made for
}

// OffsetAfter is the offset behind a record in the order.
func OffsetAfter(sort Sort, b *BSO) Offset {
	o := Offset{After: true, ID: b.ID, sort: sort}
	if sort == ByIndex {
		o.SortIndex = b.SortIndex
	} else {
		o.Modified = b.Modified
	}
	return o
}

// Token is the form in X-Weave-Next-Offset: digits for a number of rows, or a
// letter for the order, the key and the id. It needs no escaping in a URL.
func (o Offset) Token() string {
	if !o.After {
		return strconv.Itoa(o.Skip)
	}
	id := base64.RawURLEncoding.EncodeToString([]byte(o.ID))
	switch {
	case o.sort == Newest:
		return "n" + strconv.FormatInt(int64(o.Modified), 10) + "_" + id
	case o.sort == Oldest:
		return "o" + strconv.FormatInt(int64(o.Modified), 10) + "_" + id
	case !o.SortIndex.Set:
		return "i_" + id
	default:
		return "i" + strconv.FormatInt(o.SortIndex.Value, 10) + "_" + id
	}
}

// ParseOffset reads a Token.
func ParseOffset(s string) (Offset, error) {
	bad := fault.New(fault.Invalid, "offset is not valid: expected X-Weave-Next-Offset of an earlier response")
	if s == "" || len(s) > 128 {
		return Offset{}, bad
	}
	if '0' <= s[0] && s[0] <= '9' {
		n, err := strconv.ParseUint(s, 10, 31)
		if err != nil {
			return Offset{}, bad
		}
		return Offset{Skip: int(n)}, nil
	}
	o, ok := parseAfter(s)
	// What was not handed out is refused also where it means the same: the
	// decoders let signs, leading zeros and line breaks pass.
	if !ok || o.Token() != s {
		return Offset{}, bad
	}
	return o, nil
}

func parseAfter(s string) (o Offset, ok bool) {
	key, id64, _ := strings.Cut(s[1:], "_")
	id, err := base64.RawURLEncoding.DecodeString(id64)
	if err != nil || !ValidID(string(id)) {
		return o, false
	}
	o = Offset{After: true, ID: string(id)}
	n, err := strconv.ParseInt(key, 10, 64)
	switch s[0] {
	case 'n':
		o.sort = Newest
	case 'o':
		o.sort = Oldest
	case 'i':
		o.sort = ByIndex
		if key == "" {
			return o, true
		}
		o.SortIndex = Some(n)
		return o, err == nil
	default:
		return o, false
	}
	o.Modified = Timestamp(n)
	return o, err == nil && 0 <= o.Modified && o.Modified <= MaxTimestamp
}

// check refuses a token that was made for another order, or that lies outside
// the bounds of the query it comes with: it belongs to another listing.
func (o Offset) check(q *Query) error {
	if !o.After {
		return nil
	}
	if o.sort != q.Sort {
		return fault.New(fault.Invalid, "offset is for another sort order")
	}
	if q.Sort == ByIndex {
		return nil
	}
	if q.Newer.Set && o.Modified < q.Newer.Value || q.Older.Set && o.Modified > q.Older.Value {
		return fault.New(fault.Invalid, "offset is outside the range of newer and older")
	}
	return nil
}
