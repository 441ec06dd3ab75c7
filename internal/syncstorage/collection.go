package syncstorage

import "holdfast/internal/fault"

// Ids of collections. The standard ones have fixed ids that operators' scripts
// know; names that clients make up are numbered from FirstCustomID on.
const (
	// TombstoneID is no collection: the row of user_collections under it
	// keeps the user's last stamp and is the lock of the user's writes. Its
	// count is the number of new names that the user has brought into the
	// table of collections.
	TombstoneID   = 0
	FirstCustomID = 100

	MaxCollectionName = 32 // characters
)

// StandardCollection is one of the thirteen names that every backend has from
// its first migration on.
type StandardCollection struct {
	ID   int32
	Name string
}

// StandardCollections lists the fixed ids.
func StandardCollections() []StandardCollection {
	return []StandardCollection{
		{1, "clients"}, {2, "crypto"}, {3, "forms"}, {4, "history"},
		{5, "keys"}, {6, "meta"}, {7, "bookmarks"}, {8, "prefs"},
		{9, "tabs"}, {10, "passwords"}, {11, "addons"}, {12, "addresses"},
		{13, "creditcards"},
	}
}

// ValidCollection reports whether s can name a collection: 1 to 32 of
// [A-Za-z0-9._-].
func ValidCollection(s string) bool {
	if s == "" || len(s) > MaxCollectionName {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// CollectionStamp is one line of info/collections.
type CollectionStamp struct {
	Name     string
	Modified Timestamp
}

// Collections is what info/collections answers, from one snapshot.
type Collections struct {
	Modified Timestamp // of the user: the greatest stamp, tombstones included
	Stamps   []CollectionStamp
}

// CollectionUsage is one line of info/collection_usage and collection_counts.
type CollectionUsage struct {
	Name    string
	Records int64 // live ones
	Bytes   int64 // of live payloads
}

// Usage is what the counting info resources answer, from one snapshot.
// Collections without a live record are listed with zeros.
type Usage struct {
	Modified    Timestamp // of the user, as in Collections
	Collections []CollectionUsage
	Quota       Optional[int64] // the user's own; 0: no limit
}

// Total is what a user stores by the counters, which are read without the records.
// What has expired and is not removed yet is in it.
type Total struct {
	Modified Timestamp // of the user, as in Collections; 0: nothing was ever written, or all was deleted
	Records  int64
	Bytes    int64
	Counted  bool            // false: nobody has counted, and Records and Bytes are 0
	Quota    Optional[int64] // the user's own; 0: no limit
}

// Bytes is the sum over the collections: what Quota.User limits.
func (u Usage) Bytes() int64 {
	var n int64
	for _, c := range u.Collections {
		n += c.Bytes
	}
	return n
}

// ErrTooManyNames is the refusal of a collection name that is new to the
// server, from a user who has brought in as many as a user may.
var ErrTooManyNames error = fault.New(fault.Denied, "too many collection names")
