package extstorage

import "unicode/utf8"

// Query selects a page of a namespace, in the order of the keys' bytes.
type Query struct {
	Namespace Namespace
	Prefix    string
	After     Key // the page starts behind it; empty: at the beginning
	Reverse   bool
	Limit     int  // 1 to MaxPage
	Values    bool // with the values, and
	Metadata  bool // with the metadata
	Now       Moment
}

// Page is the answer to a Query.
type Page struct {
	Records []Record // without values and metadata unless asked for
	More    bool     // there are more behind the last
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
