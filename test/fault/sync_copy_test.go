package fault

import (
	"cmp"
	"maps"
	"slices"
)

// checkMoment looks for a timestamp at which the user had exactly this data. Every write
// acknowledged before the span is included, none that was sent after it is, and every other is
// included or not as a whole and in order.
func (h *harness) checkMoment(u *user, begun, ended int64) {
	h.t.Helper()
	_, there := h.read(u)
	cuts := []moment{0}
	for _, w := range u.writers {
		for _, v := range w.trail {
			cuts = append(cuts, v.stamp)
		}
	}
	slices.Sort(cuts)
	for _, cut := range slices.Compact(cuts) {
		if !slices.ContainsFunc(u.writers, func(w *writer) bool { return !w.was(there[w.name], cut, begun, ended) }) {
			return
		}
	}
	for _, w := range u.writers {
		h.t.Errorf("%s never had this state, in the order of timestamps; the last one differs by%s", w.name, difference(there[w.name], w.state))
	}
}

// was reports whether the writer had this state when the user's newest timestamp was this one, and
// whether that can have been in the span.
func (w *writer) was(there state, newest moment, begun, ended int64) bool {
	after, _ := slices.BinarySearchFunc(w.trail, newest+1, func(v version, m moment) int { return cmp.Compare(v.stamp, m) })
	at, final := w.trail[after-1], after == len(w.trail)
	if at.sent > ended || !final && w.trail[after].acked < begun {
		return false
	}
	return maps.Equal(there, at.state) ||
		final && w.lost != nil && w.lost.sent < ended && maps.Equal(there, w.lost.applied(at.state, w.lost.stampIn(there)))
}
