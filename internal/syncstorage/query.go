package syncstorage

import (
	"encoding/base64"
	"iter"
	"strconv"
	"strings"

	"holdfast/internal/errcode"
)

// Sort is the order of a listing. Ties are broken by ID, so every order is total
// and paging neither repeats nor skips a record.
type Sort uint8

// Orders of the protocol; the default is Newest.
const (
	Newest  Sort = iota // modified descending, id descending
	Oldest              // modified ascending, id ascending
	ByIndex             // sortindex descending, records without one last, id descending
)

// ParseSort parses the query argument sort.
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

// Check rejects queries that the protocol calls bad.
func (q *Query) Check() error {
	if q.IDs != nil {
		if len(q.IDs) == 0 {
			return errcode.New(errcode.Invalid, "ids is empty: expected record IDs separated by commas")
		}
		if len(q.IDs) > MaxIDsInQuery {
			return errcode.Newf(errcode.Invalid, "ids has more than %d record IDs", MaxIDsInQuery)
		}
		for _, id := range q.IDs {
			if !ValidID(id) {
				return errcode.New(errcode.Invalid, "ids contains an invalid record ID")
			}
		}
	}
	return q.Offset.check(q)
}

// Listing is the result of a Query: stamp, count and records are from one
// snapshot. The caller may range over Items once and must call Close.
type Listing struct {
	Modified Timestamp // of the collection; 0 if it does not exist
	Records  int       // number of Items
	Next     Offset    // start of the next page; zero if there is none
	More     bool      // there is a next page

	// Items yields the records without their expiry, which responses do not
	// contain. Unless the query was Full, only ID is valid. A record and its
	// payload are valid until the next iteration. An error ends the sequence.
	Items iter.Seq2[*BSO, error]

	// Gathered means that the records are in memory and hold no resources of the
	// engine.
	Gathered bool

	// Memory is the size of the records in memory until Close, in bytes.
	Memory int

	release func()
}

// NewListing returns a listing, for backends. release, which may be nil, releases
// the source of Items.
func NewListing(modified Timestamp, records int, items iter.Seq2[*BSO, error], release func()) *Listing {
	return &Listing{Modified: modified, Records: records, Items: items, release: release}
}

// Close releases the resources of the listing. It may be called more than once.
func (l *Listing) Close() {
	if l.release != nil {
		l.release()
		l.release = nil
	}
}

// ContinueAfter sets the start of the next page.
func (l *Listing) ContinueAfter(next Offset) { l.Next, l.More = next, true }

// Page returns how many of the found records are on the page. Backends read one
// more than the limit to find out whether there is a next page.
func (q *Query) Page(found int) (n int, more bool) {
	if q.Limit.Set && found > q.Limit.Value {
		return q.Limit.Value, true
	}
	return found, false
}

// Turn sets the next page to start after the last record of this one. A page with
// limit 0 has no last record, and the next page starts at the same place.
func (l *Listing) Turn(q *Query, last *BSO) {
	if last == nil {
		l.ContinueAfter(q.Offset)
		return
	}
	l.ContinueAfter(OffsetAfter(q.Sort, last))
}

// Offset is where a page starts. It is after a record, by its sort key, so that
// paging is correct despite concurrent writes, or after a number of rows, as
// people type it. Clients treat it as opaque.
type Offset struct {
	Skip      int // rows; used if After is false
	After     bool
	Modified  Timestamp       // of the record, for Newest and Oldest
	SortIndex Optional[int64] // of the record, for ByIndex
	ID        string          // of the record
	sort      Sort            // the order that the token was issued for
}

// OffsetAfter returns the offset after a record in an order.
func OffsetAfter(sort Sort, b *BSO) Offset {
	o := Offset{After: true, ID: b.ID, sort: sort}
	if sort == ByIndex {
		o.SortIndex = b.SortIndex
	} else {
		o.Modified = b.Modified
	}
	return o
}

// Token returns the form in X-Weave-Next-Offset: digits for a number of rows, or a
// letter for the order, the sort key and the ID. It needs no URL escaping.
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

// ParseOffset parses a Token.
func ParseOffset(s string) (Offset, error) {
	bad := errcode.New(errcode.Invalid, "offset is not valid: expected X-Weave-Next-Offset of an earlier response")
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
	// Reject other spellings of an issued token: the decoders accept signs, leading
	// zeros and line breaks.
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

// check rejects a token of another listing: one issued for another order, or
// outside the bounds of the query.
func (o Offset) check(q *Query) error {
	if !o.After {
		return nil
	}
	if o.sort != q.Sort {
		return errcode.New(errcode.Invalid, "offset is for another sort order")
	}
	if q.Sort == ByIndex {
		return nil
	}
	if q.Newer.Set && o.Modified < q.Newer.Value || q.Older.Set && o.Modified > q.Older.Value {
		return errcode.New(errcode.Invalid, "offset is outside the range of newer and older")
	}
	return nil
}
