package imports

import (
	"time"

	"holdfast/internal/buckets"
)

// Listed is an object, or a version of one, in a list of the source.
type Listed struct {
	Key      string
	Version  string // "": the object
	ETag     string // without quotes
	Size     int64
	Modified buckets.Moment // by the clock of the source
	Marker   bool           // it is a delete marker
	Latest   bool           // of versions: it is the current one
}

// Action is what an import does with a name.
type Action int

// The actions.
const (
	Skip         Action = iota // both sides are equal
	Take                       // read the object from the source
	Keep                       // a client has changed it here, after the source: it stays
	Delete                     // the source has deleted it
	Retag                      // only its tags may differ
	TakeVersions               // the versions of a name differ
)

// Decide compares a name at the source with the object here. Either may be nil. behind is how far the clock of the
// source is behind the clock here.
//
// What a client has not touched here follows the source. An object that a client has written or changed here is
// replaced only by one that the source has modified later, and never deleted.
func Decide(from *Listed, here *buckets.Object, behind time.Duration) Action {
	if here == nil {
		return Take
	}
	isImported := here.Imported != 0
	isTouched := !isImported || here.Modified != here.Imported
	if from == nil {
		if isTouched {
			return Keep
		}
		return Delete
	}
	isSameBody := here.Length == from.Size && here.EntityTag() == from.ETag
	switch {
	case isSameBody && (!isImported || here.Imported == from.Modified):
		return Skip
	case !isTouched, from.Modified.Add(behind) > here.Modified:
		return Take
	}
	return Keep
}
