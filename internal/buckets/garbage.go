package buckets

import (
	"cmp"
	"slices"
	"strings"
)

// Garbage is a row of manta_bucket_deleted_object: a body that no object has any more.
type Garbage struct {
	Owner   AccountID
	Bucket  BucketID
	Name    string
	ID      ObjectID
	Length  int64 // of an aborted upload: that of all its parts
	Sharks  []string
	Upload  UploadID // not empty: the body is the parts of this upload, too
	Deleted Moment   // when

	// Object is the deleted version without its body; nil: it was not asked for. For an aborted
	// upload it is the upload, without Headers and Roles.
	Object *Object
}

// DeletedBucket is a row of manta_bucket_deleted_bucket.
type DeletedBucket struct {
	Bucket
	Deleted Moment
}

// Claim reserves garbage for one worker for a time.
type Claim struct {
	ID      string // UUID of the batch
	Before  Moment // what was deleted at this time or earlier
	Now     Moment
	Expires Moment // afterwards another worker may claim what has not been removed
	Limit   int    // rows

	Objects bool // set Garbage.Object
}

// Waiting counts the garbage that is not removed yet.
type Waiting struct {
	Rows    int64
	Young   int64  // deleted after a time
	Next    Moment // when the first of the young was deleted
	Claimed int64  // not young, and claimed by a worker
	Until   Moment // when the last of these claims expires
	Held    Moment // when the hold of a backup expires; 0: no backup runs. Set by Service.Waiting
}

// Due is the garbage that nothing keeps from being removed.
func (w Waiting) Due() int64 { return w.Rows - w.Young - w.Claimed }

// Backlog is the garbage that is not removed yet.
type Backlog struct {
	Rows, Bytes int64
	Oldest      Moment // when the first of it was deleted
	Held        Moment // when the hold of a backup expires; 0: no backup runs
}

// SortGarbage sorts garbage by the time of its deletion.
func SortGarbage(all []Garbage) {
	slices.SortStableFunc(all, func(a, b Garbage) int {
		return cmp.Or(cmp.Compare(a.Deleted, b.Deleted), strings.Compare(string(a.ID), string(b.ID)))
	})
}
