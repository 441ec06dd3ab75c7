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

// Versioning says whether a bucket keeps the versions of its objects.
type Versioning int8

// A bucket that has had versions cannot be without them again.
const (
	VersioningOff Versioning = iota
	VersioningEnabled
	VersioningSuspended // new objects replace the null version; all others stay
)

// VersionID identifies a version of an object: a UUID, or NullVersion. Newer versions of an object have smaller IDs, so the
// index that begins with the name returns the newest first. The first 16 digits are
// math.MaxInt64 minus a Moment, which is greater than that of every older version also if the clock has jumped.
type VersionID string

// NullVersion is the version that was written while the bucket did not keep versions. In Properties it is "".
const NullVersion VersionID = "null"

// NewVersionID returns the ID of a version that is written now. newest is the newest of the others, "" without others. The
// digits that no order depends on come from the ID of the body.
func NewVersionID(now Moment, newest VersionID, id ObjectID) VersionID {
	if newest != "" {
		now = max(now, newest.moment()+1)
	}
	return VersionOf(math.MaxInt64-int64(now), id)
}

// VersionOf returns the ID with a number as its first 16 digits, and others from the ID of a body.
func VersionOf(number int64, id ObjectID) VersionID {
	digits := fmt.Sprintf("%016x", uint64(number))
	return VersionID(digits[:8] + "-" + digits[8:12] + "-" + digits[12:] + string(id[len(id)-18:]))
}

// moment returns the Moment in the ID.
func (v VersionID) moment() Moment {
	n, err := strconv.ParseInt(strings.ReplaceAll(string(v[:18]), "-", ""), 16, 64)
	if err != nil {
		return 0
	}
	return Moment(math.MaxInt64 - n)
}

// ParseVersionID reads the ID of a version that a client sent.
func ParseVersionID(text string) (VersionID, error) {
	if text == string(NullVersion) {
		return NullVersion, nil
	}
	if id, err := ParseUUID(text); err != nil || id != text {
		return "", ErrVersionID
	}
	return VersionID(text), nil
}

// VersionID returns the ID of the object's version.
func (o *Object) VersionID() VersionID {
	if o.Version == "" {
		return NullVersion
	}
	return o.Version
}

// Version is a version of an object, or a delete marker.
type Version struct {
	Object
	Marker     bool   // it has no body: the object is deleted while this is the current version
	Current    bool   // it is what a request without a version means
	Superseded Moment // when a newer version took its place; 0 while it is current
}

// Deleted is the result of a deletion.
type Deleted struct {
	Object  Object    // without Inline; zero if a delete marker took the place of nothing, or was deleted itself
	Version VersionID // that was deleted, or of the marker; "": the bucket has no versions
	Marker  bool      // Version is a delete marker, which was made or deleted
	Err     error     // of DeleteAll
}

// Versions reads and changes versions of objects. Errors are those of Store.
type Versions interface {
	// SetVersioning changes whether a bucket keeps versions. It waits for the writes that have begun. VersioningOff is
	// ErrVersioning, and VersioningSuspended in a bucket with object lock ErrLockVersioning.
	SetVersioning(ctx context.Context, owner AccountID, b BucketRef, v Versioning) error

	// SetBucketLock enables the object lock of a bucket, and replaces its default retention. It waits for the writes that have
	// begun. Unless versioning is enabled, it is ErrLockVersioning.
	SetBucketLock(ctx context.Context, owner AccountID, b BucketRef, l BucketLock) error

	// Version reads a version of an object, or returns ErrNoVersion. With the ID "" it reads the current one, or returns
	// ErrNoObject if the name has no version. A delete marker is no error.
	Version(ctx context.Context, owner AccountID, b BucketID, name string, id VersionID) (Version, error)

	// ListVersions reads a page of the versions of a bucket, ordered by name, the newest version of each first, from one
	// snapshot.
	ListVersions(ctx context.Context, owner AccountID, b BucketID, q VersionQuery) (VersionPage, error)
}

// Errors of operations on versions.
var (
	ErrNoVersion  = errcode.New(errcode.NotFound, "the version does not exist")
	ErrVersionID  = errcode.New(errcode.Invalid, "the version ID is not valid")
	ErrVersioning = errcode.New(errcode.Invalid, "a bucket cannot be without versions again; suspend versioning")
	ErrMarker     = errcode.New(errcode.Conflict, "the version is a delete marker")
)

// DeleteEach is DeleteAll for a store that deletes each object by itself, at most limit at once.
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
