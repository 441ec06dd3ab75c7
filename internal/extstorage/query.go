package extstorage

import (
	"cmp"
	"unicode/utf8"
)

// Query selects a page of a namespace, ordered by key bytes.
type Query struct {
	Namespace Namespace
	Prefix    string // of keys; "" means all
	After     Key    // exclusive, in the order of the list; "" means from its start
	Reverse   bool   // descending
	Limit     int    // 1 to MaxPage
	Bytes     int    // limits requested values and metadata; 0 means PageBytes
	Values    bool   // read values
	Metadata  bool   // read metadata
	Now       Moment // expired records are left out
}

// Size returns the bytes that count for the page.
func (q *Query) Size(value, metadata int64) (n int64) {
	if q.Values {
		n += value
	}
	if q.Metadata {
		n += metadata
	}
	return n
}

// ExportQuery selects a page of an install, ordered by namespace and key.
type ExportQuery struct {
	After Position // exclusive; zero means from the start
	Limit int      // records, at least 1
	Bytes int      // as in Query
	Now   Moment   // expired records are left out
}

// Query returns the query with the same limits.
func (q *ExportQuery) Query() Query {
	return Query{Limit: q.Limit, Bytes: q.Bytes, Values: true, Metadata: true, Now: q.Now}
}

// Page is the result of a Query or ExportQuery.
type Page struct {
	Records []Record // without values and metadata unless requested
	More    bool     // records follow
}

// Page limits. The first record is always included.
const (
	MaxPage   = 100
	PageBytes = 1 << 20 // values and metadata, or schema documents
)

// PageEnd ends a page after a number of entries, or before an entry that exceeds a number of bytes.
type PageEnd struct {
	limit  int
	bytes  int64
	taken  int
	filled int64
}

// NewPageEnd returns a PageEnd. If bytes is 0, the limit is PageBytes.
func NewPageEnd(limit, bytes int) PageEnd {
	return PageEnd{limit: limit, bytes: int64(cmp.Or(bytes, PageBytes))}
}

// Takes reports whether another entry of n bytes fits, and if so, counts it.
func (p *PageEnd) Takes(n int64) bool {
	if p.taken == p.limit || p.taken > 0 && p.filled+n > p.bytes {
		return false
	}
	p.taken++
	p.filled += n
	return true
}

// Successor returns the smallest string, by bytes, that is greater than all strings with the prefix, or false if no
// such string exists.
func Successor(prefix string) (string, bool) {
	for prefix != "" {
		r, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch {
		case r == utf8.MaxRune:
			continue
		case r == 0xd7ff: // surrogates follow
			r = 0xdfff
		}
		return prefix + string(r+1), true
	}
	return "", false
}
