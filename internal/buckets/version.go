package buckets

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	"holdfast/internal/errcode"
)

// Versioning is a bucket's state.
type Versioning int8

// Once enabled, versioning can only be suspended.
const (
	VersioningOff Versioning = iota
	VersioningEnabled
	VersioningSuspended // new objects replace the null version; other versions are kept
)

// VersionID is a UUID or NullVersion. Newer versions have smaller IDs, so an index by name and ID returns the newest
// first. The first 16 digits are math.MaxInt64 minus a Moment, which increases with each version even if the clock
// jumps.
type VersionID string

// NullVersion is the ID of a version written without versioning. Properties stores "" for it.
const NullVersion VersionID = "null"

// NewVersionID returns an ID for the time now. newest is the newest existing version, or "".
func NewVersionID(now Moment, newest VersionID, id ObjectID) VersionID {
	if newest != "" {
		now = max(now, newest.moment()+1)
	}
	return VersionOf(math.MaxInt64-int64(now), id)
}

// VersionOf encodes number in the first 16 digits and copies the rest from id.
func VersionOf(number int64, id ObjectID) VersionID {
	digits := fmt.Sprintf("%016x", uint64(number))
	return VersionID(digits[:8] + "-" + digits[8:12] + "-" + digits[12:] + string(id[len(id)-18:]))
}

// moment returns the time in the ID, or 0 if the ID contains no time.
func (v VersionID) moment() Moment {
	n, err := strconv.ParseInt(strings.ReplaceAll(string(v[:18]), "-", ""), 16, 64)
	if err != nil {
		return 0
	}
	return Moment(math.MaxInt64 - n)
}

// ParseVersionID parses a version ID sent by a client.
func ParseVersionID(text string) (VersionID, error) {
	if text == string(NullVersion) {
		return NullVersion, nil
	}
	if id, err := ParseUUID(text); err != nil || id != text {
		return "", ErrVersionID
	}
	return VersionID(text), nil
}

// VersionID returns the ID that clients use for this version.
func (o *Object) VersionID() VersionID {
	if o.Version == "" {
		return NullVersion
	}
	return o.Version
}

// Version is an object version or a delete marker.
type Version struct {
	Object
	Marker     bool   // no body; while this is current, the object is deleted
	Current    bool   // returned by requests without a version
	Superseded Moment // time at which a newer version replaced it
}

// Deleted is a delete's result.
type Deleted struct {
	Object  Object    // without Inline; zero if only a marker was deleted or created
	Version VersionID // deleted version or marker; "" if the bucket is not versioned
	Marker  bool      // Version is a created or deleted marker
	Err     error     // this element's error in DeleteAll
}

// Versions reads and changes object versions. Methods return the same errors as Store.
type Versions interface {
	// SetVersioning waits for running writes. It returns ErrVersioning for VersioningOff, and ErrLockVersioning for
	// suspending versioning in a bucket with object lock.
	SetVersioning(ctx context.Context, owner AccountID, b BucketRef, v Versioning) error

	// SetBucketLock waits for running writes. It returns ErrLockVersioning if versioning is not enabled.
	SetBucketLock(ctx context.Context, owner AccountID, b BucketRef, l BucketLock) error

	// Version reads the current version if id is empty. It returns ErrNoVersion or ErrNoObject if the version or object
	// does not exist. A delete marker is not an error.
	Version(ctx context.Context, owner AccountID, b BucketID, name string, id VersionID) (Version, error)

	// ListVersions reads a page from one snapshot, by name, newest first.
	ListVersions(ctx context.Context, owner AccountID, b BucketID, q VersionQuery) (VersionPage, error)
}

var (
	ErrNoVersion  = errcode.New(errcode.NotFound, "the version does not exist")
	ErrVersionID  = errcode.New(errcode.Invalid, "the version ID is not valid")
	ErrVersioning = errcode.New(errcode.Invalid, "a bucket cannot be without versions again; suspend versioning")
	ErrMarker     = errcode.New(errcode.Conflict, "the version is a delete marker")
)

// DeleteEach implements DeleteAll with at most limit concurrent deletes.
func DeleteEach(all []Deletion, limit int, del func(Deletion) (Deleted, error)) []Deleted {
	done := make([]Deleted, len(all))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(limit, len(all)) {
		wg.Go(func() {
			for i := range next {
				d, err := del(all[i])
				d.Err = err
				done[i] = d
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	wg.Wait()
	return done
}
