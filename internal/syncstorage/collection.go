package syncstorage

import "holdfast/internal/errcode"

// The standard IDs are fixed, because operators' scripts use them. Client-chosen names start at FirstCustomID.
const (
	// TombstoneID is not a collection. The row in user_collections with this ID stores the user's last stamp, is the
	// write lock, and counts names that the user added.
	TombstoneID   = 0
	FirstCustomID = 100

	MaxCollectionName = 32 // characters
)

// StandardCollection is a collection in every backend's first migration.
type StandardCollection struct {
	ID   int32
	Name string
}

// StandardCollections returns the standard collections, which have fixed IDs.
func StandardCollections() []StandardCollection {
	return []StandardCollection{
		{1, "clients"}, {2, "crypto"}, {3, "forms"}, {4, "history"},
		{5, "keys"}, {6, "meta"}, {7, "bookmarks"}, {8, "prefs"},
		{9, "tabs"}, {10, "passwords"}, {11, "addons"}, {12, "addresses"},
		{13, "creditcards"},
	}
}

// ValidCollection accepts 1 to 32 characters from [A-Za-z0-9._-].
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

// CollectionStamp is a collection with its last stamp.
type CollectionStamp struct {
	Name     string
	Modified Timestamp
}

// Collections is the result of info/collections, from a snapshot.
type Collections struct {
	Modified Timestamp         // greatest stamp, including tombstones
	Stamps   []CollectionStamp // in no fixed order
}

// CollectionUsage is an entry in info/collection_usage and collection_counts.
type CollectionUsage struct {
	Name    string
	Records int64
	Bytes   int64 // live payloads only
}

// Usage is the result of the counting info resources, from a snapshot, including empty collections.
type Usage struct {
	Modified    Timestamp
	Collections []CollectionUsage
	Quota       Optional[int64] // the user's own quota; 0 means no limit
}

// Total is a user's usage by the counters, including expired records before the sweep.
type Total struct {
	Modified Timestamp // as in Collections; 0 if never written, or if everything was deleted
	Records  int64
	Bytes    int64
	Counted  bool // if false, Records and Bytes are 0
	Quota    Optional[int64]
}

// Bytes adds up the collections.
func (u Usage) Bytes() int64 {
	var n int64
	for _, c := range u.Collections {
		n += c.Bytes
	}
	return n
}

// ErrTooManyNames means that the user added too many collection names.
var ErrTooManyNames error = errcode.New(errcode.Denied, "too many collection names")
