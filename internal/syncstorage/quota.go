package syncstorage

import "holdfast/internal/fault"

// Quota limits a user's live payload bytes: in each collection, and in all of
// them together. Either limit may be off.
type Quota struct {
	Collection int64 // bytes in one collection; 0: no limit
	User       int64 // bytes in all the user's collections; 0: no limit
	Enforce    bool  // false: a write over a limit succeeds and is reported

	// Own says that a quota of the user's own, which Store.SetQuota has set, takes
	// the place of User.
	Own bool
}

// For returns q for a user with this quota of its own, if it is set; 0 is no limit.
func (q Quota) For(own Optional[int64]) Quota {
	if q.Own && own.Set {
		q.User = own.Value
	}
	return q
}

// Used is live payload bytes: of one collection, and of all the user's
// collections together.
type Used struct{ Collection, User int64 }

// Add returns u after a change of the collection by so many bytes.
func (u Used) Add(bytes int64) Used { return Used{u.Collection + bytes, u.User + bytes} }

// ErrQuota is the refusal of a write that would exceed an enforced quota.
var ErrQuota error = fault.New(fault.Quota, "the quota is used up")

// Limited reports whether there may be a limit at all. It is the same before and
// after For.
func (q Quota) Limited() bool { return q.Own || q.Collection > 0 || q.User > 0 }

// Over reports whether u is over a limit.
func (q Quota) Over(u Used) bool {
	return q.Collection > 0 && u.Collection > q.Collection || q.User > 0 && u.User > q.User
}

// Exceeded reports whether a write that takes the bytes from before to after
// breaks a limit. A write that does not grow them never does, so that a user
// over the limit can still shrink and delete.
func (q Quota) Exceeded(before, after Used) bool {
	return q.Collection > 0 && after.Collection > q.Collection && after.Collection > before.Collection ||
		q.User > 0 && after.User > q.User && after.User > before.User
}

// Check returns ErrQuota when a limit is enforced and exceeded.
func (q Quota) Check(before, after Used) error {
	if q.Enforce && q.Exceeded(before, after) {
		return ErrQuota
	}
	return nil
}

// Remaining is how many bytes may still be stored in the collection: the smaller
// of what the limits leave; not set without a limit.
func (q Quota) Remaining(u Used) (left Optional[int64]) {
	for _, l := range []struct{ limit, used int64 }{{q.Collection, u.Collection}, {q.User, u.User}} {
		if rest := max(l.limit-l.used, 0); l.limit > 0 && (!left.Set || rest < left.Value) {
			left = Some(rest)
		}
	}
	return left
}
