package extstorage

import "holdfast/internal/fault"

// perItem is how many numbers tell of an item.
const perItem = 7

// Numbers is the answer as what a backend keeps of it and an engine's function
// returns: the install's bytes, keys and namespaces, and for each item its
// revision, its change, 1 if the record was made and 1 if it was there, and when
// it was made, changed and expires.
func (a *Applied) Numbers() []int64 {
	ns := make([]int64, 0, 3+perItem*len(a.Items))
	ns = append(ns, a.Counters.Bytes, a.Counters.Keys, a.Counters.Namespaces)
	for _, it := range a.Items {
		ns = append(ns, int64(it.Revision), int64(it.Seq), number(it.Created), number(it.Existed),
			int64(it.CreatedAt), int64(it.UpdatedAt), int64(it.ExpiresAt))
	}
	return ns
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// AppliedOf is the answer of Numbers.
func AppliedOf(ns []int64) (a Applied, err error) {
	if len(ns) < 3 || (len(ns)-3)%perItem != 0 {
		return a, fault.New(fault.Internal, "a kept answer is not whole")
	}
	a.Counters = Counters{Bytes: ns[0], Keys: ns[1], Namespaces: ns[2]}
	for ns = ns[3:]; len(ns) > 0; ns = ns[perItem:] {
		a.Items = append(a.Items, Item{
			Revision: Revision(ns[0]), Seq: Seq(ns[1]), Created: ns[2] == 1, Existed: ns[3] == 1,
			CreatedAt: Moment(ns[4]), UpdatedAt: Moment(ns[5]), ExpiresAt: Moment(ns[6]),
		})
	}
	return a, nil
}
