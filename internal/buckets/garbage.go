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
	Length  int64 // of all parts if it is an aborted upload
	Sharks  []string
	Upload  UploadID // set if the body consists of this upload's parts
	Deleted Moment

	// Object is the deleted version without its body, if requested. Aborted uploads lack Headers and Roles.
	Object *Object
}

// DeletedBucket is a row of manta_bucket_deleted_bucket.
type DeletedBucket struct {
	Bucket
	Deleted Moment
}

type Claim struct {
	ID      string
	Before  Moment // deletion time, inclusive
	Now     Moment
	Expires Moment
	Limit   int

	Objects bool
}

type Waiting struct {
	Rows    int64
	Young   int64  // within the grace period
	Next    Moment // when the oldest young row is due
	Claimed int64  // claimed and past the grace period
	Until   Moment // when the last claim expires
	Held    Moment // when the backup hold expires; set by Service.Waiting
}

func (w Waiting) Due() int64 { return w.Rows - w.Young - w.Claimed }

type Backlog struct {
	Rows, Bytes int64
	Oldest      Moment
	Held        Moment
}

func SortGarbage(all []Garbage) {
	slices.SortStableFunc(all, func(a, b Garbage) int {
		return cmp.Or(cmp.Compare(a.Deleted, b.Deleted), strings.Compare(string(a.ID), string(b.ID)))
	})
}
