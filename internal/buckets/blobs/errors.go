package blobs

import (
	"errors"
	"io"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
)

// ErrNotEnoughSpace is in the chain of an error if a body did not fit: on one node, or,
// from a Cluster, on enough nodes. HTTP has the status 507 for it.
var ErrNotEnoughSpace error = buckets.ErrNotEnoughSpace

// full is an error that is ErrNotEnoughSpace and has a cause.
type full struct{ cause error }

func (f full) Error() string { return ErrNotEnoughSpace.Error() + ": " + f.cause.Error() }

func (f full) Unwrap() []error { return []error{ErrNotEnoughSpace, f.cause} }

// noSpace returns an error that is ErrNotEnoughSpace. The cause may be nil.
func noSpace(cause error) error {
	if cause == nil {
		return ErrNotEnoughSpace
	}
	return full{cause}
}

// NotEnoughSpace returns the error of a driver whose node has no space for a body.
func NotEnoughSpace(node string, cause error) error {
	return errcode.Wrap(errcode.Unavailable, "storage node "+node+" has not enough space", noSpace(cause))
}

// Unavailable returns the error of a driver whose node does not work.
func Unavailable(node, what string, cause error) error {
	return errcode.Wrap(errcode.Unavailable, "storage node "+node+": "+what, cause)
}

// NotFound returns the error of a driver whose node has no body at a path.
func NotFound(node, path string) error {
	return errcode.New(errcode.NotFound, "storage node "+node+" has no body "+path)
}

// sourceError is an error of the reader that a caller passed to Put.
type sourceError struct{ error }

func (e sourceError) Unwrap() error { return e.error }

// SourceError marks an error of the reader that was passed to Put, so that the node is
// not blamed for it.
func SourceError(err error) error { return sourceError{err} }

// IsSourceError reports whether Put failed because the reader that it was given did.
func IsSourceError(err error) bool {
	_, ok := errors.AsType[sourceError](err)
	return ok
}

// IsEnd reports whether a reader has ended. Readers return io.EOF itself then. An error
// that wraps it is a failure, such as a peer that closed its connection, and a body that
// was cut off must not be taken for a whole one.
func IsEnd(err error) bool {
	return err == io.EOF //nolint:errorlint // see above
}

// CheckSize rejects a body of another size than was announced. A size of -1 is unknown.
func CheckSize(got, size int64) error {
	switch {
	case size < 0 || got == size:
		return nil
	case got > size:
		return SourceError(errcode.Newf(errcode.Invalid, "body is larger than the expected %d bytes", size))
	default:
		return SourceError(errcode.Newf(errcode.Invalid, "body has %d bytes, expected %d", got, size))
	}
}
