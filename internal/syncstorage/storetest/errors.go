package storetest

import (
	"errors"

	"holdfast/internal/fault"
	ss "holdfast/internal/syncstorage"
)

// sameError reports whether a store answered what the contract says: the
// root's own errors by identity, a precondition with its fields, and others by
// their code.
func sameError(got, want error) bool {
	if got == nil || want == nil {
		return got == want
	}
	for _, root := range []error{ss.ErrNoBatch, ss.ErrBatchTooLarge, ss.ErrQuota, ss.ErrTooManyNames} {
		if errors.Is(want, root) {
			return errors.Is(got, root)
		}
	}
	var g, w *ss.PreconditionError
	if errors.As(want, &w) {
		return errors.As(got, &g) && *g == *w
	}
	return fault.CodeOf(got) == fault.CodeOf(want)
}

// errNotFound is what a missing record is answered with.
var errNotFound error = fault.New(fault.NotFound, "record not found")
