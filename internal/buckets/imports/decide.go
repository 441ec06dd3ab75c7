package imports

import (
	"time"

	"holdfast/internal/buckets"
)

// Listed is an object or version listed by the source.
type Listed struct {
	Key      string
	Version  string // "" if versions were not listed
	ETag     string // without quotes
	Size     int64
	Modified buckets.Moment // by the source's clock
	Marker   bool           // a delete marker
	Latest   bool           // the current version
}

// Action is a decision about a name.
type Action int

const (
	Skip         Action = iota // equal on both sides
	Take                       // import it
	Keep                       // changed here by a client later than at the source
	Delete                     // deleted at the source
	Retag                      // only tags may differ
	TakeVersions               // follow a Plan
)

// Decide compares a name at the source with the object here. Either may be nil. behind is how far the source's clock
// is behind.
//
// Objects that no client changed here follow the source. Other objects are replaced only by a later change at the
// source, and never deleted.
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
