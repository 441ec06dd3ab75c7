package blobs

import (
	"cmp"
	"errors"
	"io"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
	"holdfast/internal/fserror"
)

// ErrNotEnoughSpace is wrapped by drivers if a body does not fit, and by a Cluster if too few nodes have space.
var ErrNotEnoughSpace error = buckets.ErrNotEnoughSpace

// full is a driver's error for a full node.
type full struct{ cause error }

func (f full) Error() string { return ErrNotEnoughSpace.Error() + ": " + f.cause.Error() }

func (f full) Unwrap() []error { return []error{ErrNotEnoughSpace, f.cause} }

// noSpace adds the driver's reason, if there is one.
func noSpace(cause error) error {
	if cause == nil {
		return ErrNotEnoughSpace
	}
	return full{cause}
}

// NotEnoughSpace returns the error for a node without space for a body.
func NotEnoughSpace(node string, cause error) error {
	return &errcode.Error{
		Code: errcode.Unavailable, Message: "storage node " + node + " has not enough space", Cause: noSpace(cause), Fix: cmp.Or(fserror.Advice(cause), "make space on the node, or add a node"),
	}
}

// Unavailable returns the error for a node that does not work.
func Unavailable(node, what string, cause error) error {
	return UnavailableFor(node, what, cause, cmp.Or(fserror.Advice(cause), errcode.NetworkFix(cause)))
}

// UnavailableFor is Unavailable with advice for an operator.
func UnavailableFor(node, what string, cause error, fix string) error {
	return &errcode.Error{Code: errcode.Unavailable, Message: "storage node " + node + ": " + what, Cause: cause, Fix: fix}
}

// NotFound returns the error for a missing body on a working node.
func NotFound(node, path string) error {
	return errcode.New(errcode.NotFound, "storage node "+node+" has no body "+path)
}

// sourceError is an error from the body's reader.
type sourceError struct{ error }

func (e sourceError) Unwrap() error { return e.error }

// SourceError marks an error from Put's reader, so that the node is not blamed.
func SourceError(err error) error { return sourceError{err} }

// IsSourceError reports whether Put failed because of its reader.
func IsSourceError(err error) bool {
	_, ok := errors.AsType[sourceError](err)
	return ok
}

// IsEnd reports whether err is io.EOF itself. A wrapped io.EOF is a failure, e.g. a closed connection.
func IsEnd(err error) bool {
	return err == io.EOF //nolint:errorlint // see above
}

// CheckSize rejects a body of unexpected size; -1 means unknown.
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
