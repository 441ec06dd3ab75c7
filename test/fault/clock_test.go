package fault

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"holdfast/test/binary"
)

// A server whose clock steps, back by an hour, forward by a day, and back
// again, answers every request, and its stamps go on to grow.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	onEngines(t, services(), both(), func(t *testing.T, e engine, data string, vars ...string) {
		h := newHarness(t, data, vars...)
		first := newHands(t)
		h.server = first.serve(h.data, h.vars...)
		if e.servers() == 1 {
			h.steps(first)
			return
		}
		second := newHands(t) // and the two are never of one mind
		h.second = second.serve(h.data, h.vars...)
		h.steps(first, second)
	})
}

// steps turns clocks in rounds, and wants that nobody is refused for it.
func (h *harness) steps(clocks ...*hands) {
	h.leaps = true
	h.rounds(4, func(round int) fault {
		return fault{recover: func() {}, strike: func() {
			for _, step := range []time.Duration{-time.Hour, 23 * time.Hour, 0} {
				for i, c := range clocks {
					c.set(step + time.Duration(i)*time.Hour)
				}
				h.await(h.load.after(15))
			}
		}}
	})
	if n := h.tally.refused.Load(); n > 0 {
		h.t.Errorf("%d requests were refused", n)
	}
}

// hands are those of a server's clock.
type hands struct {
	t    *testing.T
	file string
}

// newHands are those of a clock that is right.
func newHands(t *testing.T) *hands {
	t.Helper()
	c := &hands{t, filepath.Join(t.TempDir(), "off")}
	c.set(0)
	return c
}

// set makes the clock wrong by off.
func (c *hands) set(off time.Duration) {
	c.t.Helper()
	c.write(off.String())
}

// stop makes the clock stand still at a time.
func (c *hands) stop(at time.Time) {
	c.t.Helper()
	c.write(at.Format(time.RFC3339Nano))
}

func (c *hands) write(text string) {
	c.t.Helper()
	next := c.file + "-next"
	must(c.t, os.WriteFile(next, []byte(text), 0o600))
	must(c.t, os.Rename(next, c.file))
}

// serve runs a server by the clock.
func (c *hands) serve(data string, vars ...string) *binary.Server {
	c.t.Helper()
	s := binary.LaunchProgram(c.t, binary.Build(c.t, "holdfast/test/fault/clocked"), data, append(vars, "CLOCKED_BY="+c.file)...)
	s.Await("/readyz", http.StatusOK)
	return s
}
