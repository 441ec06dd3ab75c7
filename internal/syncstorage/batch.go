package syncstorage

import (
	"time"

	"holdfast/internal/errcode"
)

// BatchLifetime is how long an open batch is kept, as in the reference server.
const BatchLifetime = 2 * time.Hour

// ErrNoBatch is the same for unknown, expired, committed and other users' batches, so that it reveals nothing about
// them.
var ErrNoBatch error = errcode.New(errcode.Invalid, "batch not found, expired or already committed")

// ErrBatchTooLarge means that counted (not declared) totals exceed the batch limits.
var ErrBatchTooLarge error = errcode.New(errcode.TooLarge, "the batch is too large")

// BatchID identifies an open batch: 32 hex digits.
type BatchID string

// ValidBatchID reports whether s looks like a BatchID.
func ValidBatchID(s string) bool {
	if len(s) != 32 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// BatchPart is a request of a batch.
type BatchPart struct {
	ID      BatchID     // chosen by the Service; with Opens it must be new: an ID in use is an error
	Opens   bool        // the first request, for Append only
	Updates []Update    // may be empty
	Limits  BatchLimits // for all requests together, from the request's settings
}

// BatchLimits limits a whole batch. 0 allows nothing.
type BatchLimits struct {
	Records int64
	Bytes   int64 // payload bytes
}

// Check returns ErrBatchTooLarge. total is the batch with the new part.
func (l BatchLimits) Check(total Delta) error {
	if total.Records > l.Records || total.Bytes > l.Bytes {
		return ErrBatchTooLarge
	}
	return nil
}
