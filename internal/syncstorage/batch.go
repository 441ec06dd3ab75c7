package syncstorage

import (
	"time"

	"holdfast/internal/fault"
)

// BatchLifetime is how long a batch may stay open, counted from its creation;
// appending does not extend it.
const BatchLifetime = 2 * time.Hour

// ErrNoBatch answers a batch id that is unknown, expired, committed, or of
// another user or collection: one error for all, so that nothing is revealed.
var ErrNoBatch error = fault.New(fault.Invalid, "batch not found, expired or already committed")

// ErrBatchTooLarge is the refusal of records that would take a batch over its
// real, counted totals, whatever the client declared.
var ErrBatchTooLarge error = fault.New(fault.TooLarge, "the batch is too large")

// BatchID names an open batch of one user and collection: 32 hex digits.
type BatchID string

// ValidBatchID reports whether s has the form of a BatchID, so that only such
// reach a backend.
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

// BatchLimits bound the records that a batch may hold when it is committed.
type BatchLimits struct {
	Records int64
	Bytes   int64 // of payloads
}

// Check returns ErrBatchTooLarge when the totals are over the limits.
func (l BatchLimits) Check(total Delta) error {
	if total.Records > l.Records || total.Bytes > l.Bytes {
		return ErrBatchTooLarge
	}
	return nil
}
