package fault

import (
	"testing"
	"time"

	"holdfast/test/fault/harness"
)

// TestClockSteps sets a server's clock back by an hour, forward by a day, and back again. The server must answer every
// request, and its timestamps must keep increasing.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	harness.OnEngines(t, services(), harness.InTurn(harness.OnSQLite, harness.OnPostgres), func(t *testing.T, e harness.Engine, data string, vars ...string) {
		h := newHarness(t, data, vars...)
		first := harness.NewClock(t)
		h.Server = first.Serve(h.Data, h.Vars...)
		if e.Servers() == 1 {
			stepClocks(h, first)
			return
		}
		second := harness.NewClock(t) // the two clocks always differ
		h.Second = second.Serve(h.Data, h.Vars...)
		stepClocks(h, first, second)
	})
}

func stepClocks(h *harness.Harness, clocks ...*harness.Clock) {
	h.Leaps = true
	h.Rounds(4, func(round int) harness.Fault {
		return harness.Fault{Recover: func() {}, Inject: func() {
			for _, step := range []time.Duration{-time.Hour, 23 * time.Hour, 0} {
				for i, c := range clocks {
					c.Set(step + time.Duration(i)*time.Hour)
				}
				h.Await(h.Load.After(15))
			}
		}}
	})
	if n := h.Tally.Refused.Load(); n > 0 {
		h.T.Errorf("%d requests were refused", n)
	}
}
