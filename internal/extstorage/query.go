package extstorage

import (
	"cmp"
	"unicode/utf8"
)

// Query selects a page of a namespace, ordered by key bytes.
type Query struct {
	Namespace Namespace
	Prefix    string
	After     Key // the page starts after this key; empty: at the beginning
	Reverse   bool
	Limit     int  // 1 to MaxPage
	Bytes     int  // limit of the requested values and metadata; 0: PageBytes
	Values    bool // include values
	Metadata  bool // include metadata
	Now       Moment
}

// Size returns the bytes that a record counts for in the page, given the sizes of
// its value and metadata.
func (q *Query) Size(value, metadata int64) (n int64) {
	if q.Values {
		n += value
	}
	if q.Metadata {
		n += metadata
	}
	return n
}

// ExportQuery selects a page of all records of an install, ordered by namespace
// and key.
type ExportQuery struct {
	After Position // the page starts after this position; zero: at the beginning
	Limit int      // 1 to MaxPage
	Bytes int      // limit of values and metadata; 0: PageBytes
	Now   Moment
}

// Query returns the limits and contents of the page as a Query.
func (q *ExportQuery) Query() Query {
	return Query{Limit: q.Limit, Bytes: q.Bytes, Values: true, Metadata: true, Now: q.Now}
}

// Page is the result of a Query or an ExportQuery.
type Page struct {
	Records []Record // without values and metadata unless requested
	More    bool     // there are more records after the page
}

// Maximum size of a page. The first record of a page is included whatever its
// size.
const (
	MaxPage   = 100     // records
	PageBytes = 1 << 20 // of values and metadata, or of schema documents
)

// PageEnd decides where a page ends: at a number of entries, or before the first
// entry that would exceed a number of bytes.
type PageEnd struct {
	limit  int
	bytes  int64
	taken  int
	filled int64
}

// NewPageEnd returns a PageEnd for at most limit entries and bytes bytes; 0 bytes
// means PageBytes.
func NewPageEnd(limit, bytes int) PageEnd {
	return PageEnd{limit: limit, bytes: int64(cmp.Or(bytes, PageBytes))}
}

// Takes reports whether the page has room for another entry of n bytes, and counts
// the entry if so.
func (p *PageEnd) Takes(n int64) bool {
	if p.taken == p.limit || p.taken > 0 && p.filled+n > p.bytes {
		return false
	}
	p.taken++
	p.filled += n
	return true
}

// Successor returns the least text, by bytes, that is greater than every text with
// the prefix, or false if there is none. The result is valid UTF-8, because some
// engines accept nothing else: Successor increments the last character that can be
// incremented.
func Successor(prefix string) (string, bool) {
	for prefix != "" {
		r, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch {
		case r == utf8.MaxRune:
			continue
		case r == 0xd7ff: // the next code points are surrogates
			r = 0xdfff
		}
		return prefix + string(r+1), true
	}
	return "", false
}
