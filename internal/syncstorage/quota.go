package syncstorage

import "holdfast/internal/errcode"

// Quota limits a user's live payload bytes per collection and in total; 0 means no limit.
type Quota struct {
	Collection int64
	User       int64
	Enforce    bool // if false, excess is only reported

	// Own means that User was set by Store.SetQuota.
	Own bool
}

// For applies a user's own quota, if set; 0 means no limit.
func (q Quota) For(own Optional[int64]) Quota {
	if q.Own && own.Set {
		q.User = own.Value
	}
	return q
}

// CheckOwnQuota returns errcode.Invalid for a negative quota.
func CheckOwnQuota(bytes Optional[int64]) error {
	if bytes.Set && bytes.Value < 0 {
		return errcode.New(errcode.Invalid, "a quota cannot be negative")
	}
	return nil
}

// Used is the number of live payload bytes in a collection and in total.
type Used struct{ Collection, User int64 }

// Add adds bytes to both.
func (u Used) Add(bytes int64) Used { return Used{u.Collection + bytes, u.User + bytes} }

// ErrQuota means that a write would exceed an enforced quota.
var ErrQuota error = errcode.New(errcode.Quota, "the quota is used up")

// Limited reports whether any limit may apply, before or after For.
func (q Quota) Limited() bool { return q.Own || q.Collection > 0 || q.User > 0 }

// Over reports whether a limit is exceeded.
func (q Quota) Over(u Used) bool {
	return q.Collection > 0 && u.Collection > q.Collection || q.User > 0 && u.User > q.User
}

// Exceeded returns false if the write adds no bytes, so that users over the limit can still delete.
func (q Quota) Exceeded(before, after Used) bool {
	return q.Collection > 0 && after.Collection > q.Collection && after.Collection > before.Collection ||
		q.User > 0 && after.User > q.User && after.User > before.User
}

// Check returns ErrQuota for an enforced quota that the write would exceed.
func (q Quota) Check(before, after Used) error {
	if q.Enforce && q.Exceeded(before, after) {
		return ErrQuota
	}
	return nil
}

// Remaining returns how many more bytes the collection may store. It is unset if there is no limit.
func (q Quota) Remaining(u Used) (left Optional[int64]) {
	for _, l := range []struct{ limit, used int64 }{{q.Collection, u.Collection}, {q.User, u.User}} {
		if rest := max(l.limit-l.used, 0); l.limit > 0 && (!left.Set || rest < left.Value) {
			left = Some(rest)
		}
	}
	return left
}
