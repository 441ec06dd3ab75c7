package syncstorage

import "holdfast/internal/fault"

// Quota is the limit on a user's live payload bytes over all collections.
// Counters are kept whether or not there is a limit.
type Quota struct {
	Limit   int64 // bytes; 0: none
	Enforce bool  // false: a write over the limit succeeds and is reported
}

// ErrQuota is the refusal of a write that would exceed an enforced quota.
var ErrQuota error = fault.New(fault.Quota, "the quota is used up")

// Exceeded reports whether a write that takes the user's bytes from before to
// after breaks the limit. A write that does not grow the total never does, so
// that a user over the limit can still shrink and delete.
func (q Quota) Exceeded(before, after int64) bool {
	return q.Limit > 0 && after > q.Limit && after > before
}

// Check returns ErrQuota when the limit is enforced and exceeded.
func (q Quota) Check(before, after int64) error {
	if q.Enforce && q.Exceeded(before, after) {
		return ErrQuota
	}
	return nil
}
