package storetest

import (
	"errors"

	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
)

// sameError compares errors by the sentinel or type that the contract names.
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
	return errcode.Of(got) == errcode.Of(want)
}

var errNotFound error = errcode.New(errcode.NotFound, "record not found")
