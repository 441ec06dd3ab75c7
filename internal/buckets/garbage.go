package buckets

import (
	"cmp"
	"slices"
	"strings"
)

// Garbage is a row of manta_bucket_deleted_object: a body no longer used by an object.
type Garbage struct {
	Owner   AccountID
	Bucket  BucketID
	Name    string
	ID      ObjectID
	Length  int64 // aborted upload: of all its parts
	Sharks  []string
	Upload  UploadID // set if the body includes this upload's parts
	Deleted Moment

	// Object is the deleted version without its body, if requested. For an aborted upload it is the upload, without
	// Headers and Roles.
	Object *Object
}

// DeletedBucket is a row of manta_bucket_deleted_bucket.
type DeletedBucket struct {
	Bucket
	Deleted Moment
}

// Claim reserves garbage for one worker.
type Claim struct {
	ID      string // batch UUID
	Before  Moment // deleted at or before
	Now     Moment
	Expires Moment // then others may claim the rest
	Limit   int    // rows

	Objects bool // fill in Garbage.Object
}

// Waiting counts remaining garbage.
type Waiting struct {
	Rows    int64
	Young   int64  // within the grace period
	Next    Moment // when the first young row was deleted
	Claimed int64  // claimed and not young
	Until   Moment // when the last claim expires
	Held    Moment // when a backup's hold expires; 0: none. Set by Service.Waiting
}

// Due counts the garbage that can be removed now.
func (w Waiting) Due() int64 { return w.Rows - w.Young - w.Claimed }

// Backlog is the remaining garbage.
type Backlog struct {
	Rows, Bytes int64
	Oldest      Moment // when the oldest was deleted
	Held        Moment // when a backup's hold expires; 0: none
}

// SortGarbage sorts by deletion time.
func SortGarbage(all []Garbage) {
	slices.SortStableFunc(all, func(a, b Garbage) int {
		return cmp.Or(cmp.Compare(a.Deleted, b.Deleted), strings.Compare(string(a.ID), string(b.ID)))
	})
}
