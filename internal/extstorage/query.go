package extstorage

import (
	"cmp"
	"unicode/utf8"
)

// Query selects a page of a namespace, in the order of the keys' bytes.
type Query struct {
	Namespace Namespace
	Prefix    string
	After     Key // the page starts behind it; empty: at the beginning
	Reverse   bool
	Limit     int  // 1 to MaxPage
	Bytes     int  // of what is asked for of values and metadata; 0: PageBytes
	Values    bool // with the values, and
	Metadata  bool // with the metadata
	Now       Moment
}

// Size is what a record counts for in the page, by the sizes of its value and its
// metadata.
func (q *Query) Size(value, metadata int64) (n int64) {
	if q.Values {
		n += value
	}
	if q.Metadata {
		n += metadata
	}
	return n
}

// ExportQuery selects a page of everything that an install has, in the order of
// namespace and key.
type ExportQuery struct {
	After Position // the page starts behind it; the zero Position is before all
	Limit int      // 1 to MaxPage
	Bytes int      // of values and metadata; 0: PageBytes
	Now   Moment
}

// Query is what the page has of its records, as a Query says it.
func (q *ExportQuery) Query() Query {
	return Query{Limit: q.Limit, Bytes: q.Bytes, Values: true, Metadata: true, Now: q.Now}
}

// Page is the answer to a Query or an ExportQuery.
type Page struct {
	Records []Record // without values and metadata unless asked for
	More    bool     // there are more behind the last
}

// How much a page has at most. The first record of a page is in it whatever its
// size.
const (
	MaxPage   = 100     // records
	PageBytes = 1 << 20 // values and metadata, or documents of schemas
)

// PageEnd decides where a page ends: at a number of entries, or before the first
// that would take it above a number of bytes.
type PageEnd struct {
	limit  int
	bytes  int64
	taken  int
	filled int64
}

// NewPageEnd returns the end of a page with at most limit entries and bytes bytes;
// 0 bytes are PageBytes.
func NewPageEnd(limit, bytes int) PageEnd {
	return PageEnd{limit: limit, bytes: int64(cmp.Or(bytes, PageBytes))}
}

// Takes reports whether the page has room for another entry of n bytes, and counts
// it if so.
func (p *PageEnd) Takes(n int64) bool {
	if p.taken == p.limit || p.taken > 0 && p.filled+n > p.bytes {
		return false
	}
	p.taken++
	p.filled += n
	return true
}

// Successor is the least text that is greater than every text with the prefix,
// by bytes; false when there is none. It is text again, because an engine may
// take nothing else: the last character that can be is made the next one.
func Successor(prefix string) (string, bool) {
	for prefix != "" {
		r, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch {
		case r == utf8.MaxRune:
			continue
		case r == 0xd7ff: // what follows are surrogates
			r = 0xdfff
		}
		return prefix + string(r+1), true
	}
	return "", false
}
