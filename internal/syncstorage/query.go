package syncstorage

import (
	"encoding/base64"
	"iter"
	"strconv"
	"strings"

	"holdfast/internal/errcode"
)

// Sort is a listing's order. IDs break ties, so paging neither repeats nor skips a record.
type Sort uint8

// Orders; the default is Newest.
const (
	Newest  Sort = iota // modified descending, id descending
	Oldest              // modified ascending, id ascending
	ByIndex             // sortindex descending, missing last, id descending
)

// ParseSort parses the parameter sort; ok is false for other texts.
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

// Query selects a page of a collection.
type Query struct {
	Collection string
	IDs        []string // nil means all; never empty. Unknown and repeated IDs are ignored; Sort decides the order
	Newer      Optional[Timestamp]
	Older      Optional[Timestamp] // exclusive, like Newer
	Full       bool                // whole records rather than IDs
	Sort       Sort
	Limit      Optional[int] // records; 0 is allowed, and returns none
	Offset     Offset        // zero for the first page; Check refuses the offset of another Sort
	If         Precondition  // applies to the collection
	Now        Timestamp     // decides which records have expired
}

// Check returns errcode.Invalid for parameters that the protocol does not allow.
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

// Listing is a Query's result, from a snapshot. Range over Items at most once, and call Close.
type Listing struct {
	Modified Timestamp // 0 if there is no such collection
	Records  int       // on this page
	Next     Offset    // of the next page; zero unless More
	More     bool      // records follow this page

	// Items yields the page's records without expiry. Unless the query was Full, only the ID counts. Records and payloads
	// are valid until the next iteration. An error ends the sequence.
	Items iter.Seq2[*BSO, error]

	// Gathered means that the records are in memory and hold no engine resources.
	Gathered bool

	// Memory is the size of the records' memory until Close, in bytes.
	Memory int

	release func()
}

// NewListing returns a listing, for backends. release, which may be nil, releases the source of Items.
func NewListing(modified Timestamp, records int, items iter.Seq2[*BSO, error], release func()) *Listing {
	return &Listing{Modified: modified, Records: records, Items: items, release: release}
}

// Close releases engine resources and memory. It may be called repeatedly.
func (l *Listing) Close() {
	if l.release != nil {
		l.release()
		l.release = nil
	}
}

// ContinueAfter sets the next page.
func (l *Listing) ContinueAfter(next Offset) { l.Next, l.More = next, true }

// Page returns how many rows belong to the page if count rows were read, a row more than the limit.
func (q *Query) Page(count int) (n int, more bool) {
	if q.Limit.Set && count > q.Limit.Value {
		return q.Limit.Value, true
	}
	return count, false
}

// Turn starts the next page after this page's last record or, if the limit is 0, at the same place.
func (l *Listing) Turn(q *Query, last *BSO) {
	if last == nil {
		l.ContinueAfter(q.Offset)
		return
	}
	l.ContinueAfter(OffsetAfter(q.Sort, last))
}

// Offset is where a page starts: after a record's sort key, which is robust against concurrent writes, or after a
// number of rows, as people type it. It is opaque to clients.
type Offset struct {
	Skip      int  // rows
	After     bool // the fields below are set
	Modified  Timestamp
	SortIndex Optional[int64]
	ID        string
	sort      Sort
}

// OffsetAfter returns the position after a record in this order.
func OffsetAfter(sort Sort, b *BSO) Offset {
	o := Offset{After: true, ID: b.ID, sort: sort}
	if sort == ByIndex {
		o.SortIndex = b.SortIndex
	} else {
		o.Modified = b.Modified
	}
	return o
}

// Token returns digits for a row count, or a letter for the order, the sort key and the ID. It is URL-safe.
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

// ParseOffset accepts only texts that Token returns.
func ParseOffset(s string) (Offset, error) {
	bad := errcode.New(errcode.Invalid, "offset is not valid: expected X-Weave-Next-Offset from an earlier response")
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
	// Reject other spellings: the decoders accept signs, leading zeros and line breaks.
	if !ok || o.Token() != s {
		return Offset{}, bad
	}
	return o, nil
}

// parseAfter parses the letter form.
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

// check rejects an offset of another query, for which it would skip records.
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
		return errcode.New(errcode.Invalid, "offset is outside the range given by newer and older")
	}
	return nil
}
