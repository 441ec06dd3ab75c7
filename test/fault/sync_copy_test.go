package fault

import (
	"slices"

	wl "holdfast/internal/workload"
	syncload "holdfast/internal/workload/sync"
)

// checkUserMoment looks for a timestamp at which the user had exactly this data. Every write
// acknowledged before the span is included, none that was sent after it is, and every other is
// included or not as a whole and in order.
func checkUserMoment(h *harness, u *syncload.User, begun, ended int64) {
	h.t.Helper()
	_, there := readUser(h, u)
	cuts := []syncload.Moment{0}
	for _, w := range u.Writers {
		for _, v := range w.Trail {
			cuts = append(cuts, v.Stamp)
		}
	}
	slices.Sort(cuts)
	for _, cut := range slices.Compact(cuts) {
		if !slices.ContainsFunc(u.Writers, func(w *syncload.Writer) bool { return !w.Was(there[w.Name], cut, begun, ended) }) {
			return
		}
	}
	for _, w := range u.Writers {
		h.t.Errorf("%s never had this state, in the order of timestamps; the last one differs by%s", w.Name, wl.Difference(there[w.Name], w.State))
	}
}
