package syncstorage

import (
	"time"

	"holdfast/internal/errcode"
)

// BatchLifetime is how long a batch may stay open after its creation. Appending
// does not extend it.
const BatchLifetime = 2 * time.Hour

// ErrNoBatch means that a batch ID is unknown, expired, committed, or belongs to
// another user or collection. It is one error for all, to reveal nothing.
var ErrNoBatch error = errcode.New(errcode.Invalid, "batch not found, expired or already committed")

// ErrBatchTooLarge means that records would exceed the limits of a batch, by
// counted totals and not by what the client declared.
var ErrBatchTooLarge error = errcode.New(errcode.TooLarge, "the batch is too large")

// BatchID identifies an open batch of one user and collection: 32 hex digits.
type BatchID string

// ValidBatchID reports whether s has the form of a BatchID. Check it before
// calling a backend.
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

// BatchPart is a part of a batch: the records of one request.
type BatchPart struct {
	ID      BatchID
	Opens   bool // it opens the batch
	Updates []Update
	Limits  BatchLimits // of the whole batch
}

// BatchLimits limit the records of a batch when it is committed.
type BatchLimits struct {
	Records int64
	Bytes   int64 // of payloads
}

// Check returns ErrBatchTooLarge if the totals exceed the limits.
func (l BatchLimits) Check(total Delta) error {
	if total.Records > l.Records || total.Bytes > l.Bytes {
		return ErrBatchTooLarge
	}
	return nil
}
