package syncstorage

import "holdfast/internal/errcode"

// IDs of collections. The standard collections have fixed IDs that operators'
// scripts know; client-chosen names get IDs from FirstCustomID on.
const (
	// TombstoneID is not a collection. The row of user_collections with this ID
	// stores the user's last stamp and is the lock for the user's writes. Its count
	// is the number of new names that the user has added to the table of
	// collections.
	TombstoneID   = 0
	FirstCustomID = 100

	MaxCollectionName = 32 // characters
)

// StandardCollection is one of the thirteen collections that every backend creates
// in its first migration.
type StandardCollection struct {
	ID   int32
	Name string
}

// StandardCollections returns the standard collections with their fixed IDs.
func StandardCollections() []StandardCollection {
	return []StandardCollection{
		{1, "clients"}, {2, "crypto"}, {3, "forms"}, {4, "history"},
		{5, "keys"}, {6, "meta"}, {7, "bookmarks"}, {8, "prefs"},
		{9, "tabs"}, {10, "passwords"}, {11, "addons"}, {12, "addresses"},
		{13, "creditcards"},
	}
}

// ValidCollection reports whether s is a valid collection name: 1 to 32 of
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

// CollectionStamp is an entry of info/collections.
type CollectionStamp struct {
	Name     string
	Modified Timestamp
}

// Collections is the result of info/collections, from one snapshot.
type Collections struct {
	Modified Timestamp // of the user: the greatest stamp, including tombstones
	Stamps   []CollectionStamp
}

// CollectionUsage is an entry of info/collection_usage and collection_counts.
type CollectionUsage struct {
	Name    string
	Records int64 // live records only
	Bytes   int64 // payloads of live records only
}

// Usage is the result of the counting info resources, from one snapshot.
// Collections without a live record are listed with zeros.
type Usage struct {
	Modified    Timestamp // of the user, as in Collections
	Collections []CollectionUsage
	Quota       Optional[int64] // the user's own; 0: no limit
}

// Total is what a user stores by the counters, without reading the records. It
// includes expired records that have not been removed.
type Total struct {
	Modified Timestamp // of the user, as in Collections; 0: nothing was ever written, or everything was deleted
	Records  int64
	Bytes    int64
	Counted  bool            // false: never counted, and Records and Bytes are 0
	Quota    Optional[int64] // the user's own; 0: no limit
}

// Bytes returns the sum over the collections, which Quota.User limits.
func (u Usage) Bytes() int64 {
	var n int64
	for _, c := range u.Collections {
		n += c.Bytes
	}
	return n
}

// ErrTooManyNames means that a user has added the maximum number of new collection
// names to the server.
var ErrTooManyNames error = errcode.New(errcode.Denied, "too many collection names")
