package storetest

import (
	"errors"

	"holdfast/internal/fault"
	ss "holdfast/internal/syncstorage"
)

// sameError reports whether a store returned the error of the contract: the root's
// own errors by identity, a *PreconditionError by its fields, others by their code.
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

// errNotFound is the error for a missing record.
var errNotFound error = fault.New(fault.NotFound, "record not found")
