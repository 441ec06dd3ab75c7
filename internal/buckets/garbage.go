package buckets

import (
	"cmp"
	"slices"
	"strings"
)

// Garbage is a row of manta_bucket_deleted_object: a body that no object uses.
type Garbage struct {
	Owner   AccountID
	Bucket  BucketID
	Name    string
	ID      ObjectID
	Length  int64    // of all parts if it is an aborted upload
	Sharks  []string // nodes with copies; empty for inline bodies and uploads
	Upload  UploadID // set if the body consists of this upload's parts
	Deleted Moment   // when the grace period began

	// Object is the deleted version without its body, if requested. Aborted uploads lack Headers and Roles.
	Object *Object
}

// DeletedBucket is a row of manta_bucket_deleted_bucket.
type DeletedBucket struct {
	Bucket
	Deleted Moment
}

// Claim describes garbage to reserve.
type Claim struct {
	ID      string // chosen by the caller; passed to Claimed, Remove and Unclaim
	Before  Moment // deletion time, inclusive
	Now     Moment // decides which older claims are expired
	Expires Moment // when others may claim the same garbage
	Limit   int    // rows

	// Objects also reads Garbage.Object, which takes longer.
	Objects bool
}

// Waiting tells operators why garbage is not freed yet. Rows counts all garbage.
type Waiting struct {
	Rows    int64
	Young   int64  // within the grace period
	Next    Moment // when the oldest young row is due
	Claimed int64  // claimed and past the grace period
	Until   Moment // when the last claim expires
	Held    Moment // when the backup hold expires; set by Service.Waiting
}

// Due returns the rows that the next run may free.
func (w Waiting) Due() int64 { return w.Rows - w.Young - w.Claimed }

// Backlog counts garbage for metrics.
type Backlog struct {
	Rows, Bytes int64
	Oldest      Moment // earliest deletion, or 0
	Held        Moment // when the backup hold expires, or 0
}

// SortGarbage sorts like Claim: oldest first, then by ID. SQLite returns updated rows in no order.
func SortGarbage(all []Garbage) {
	slices.SortStableFunc(all, func(a, b Garbage) int {
		return cmp.Or(cmp.Compare(a.Deleted, b.Deleted), strings.Compare(string(a.ID), string(b.ID)))
	})
}
