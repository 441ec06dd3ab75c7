package fault

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"holdfast/test/binary"
)

// A server whose clock is set back by an hour, forward by a day, and back again answers every
// request, and its timestamps keep growing.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	onEngines(t, services(), inTurn(onSQLite, onPostgres), func(t *testing.T, e engine, data string, vars ...string) {
		h := newHarness(t, data, vars...)
		first := newTestClock(t)
		h.server = first.serve(h.data, h.vars...)
		if e.servers() == 1 {
			h.steps(first)
			return
		}
		second := newTestClock(t) // the two clocks always differ
		h.second = second.serve(h.data, h.vars...)
		h.steps(first, second)
	})
}

// steps sets the clocks in rounds, and expects that no request is refused.
func (h *harness) steps(clocks ...*testClock) {
	h.leaps = true
	h.rounds(4, func(round int) fault {
		return fault{recover: func() {}, inject: func() {
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

// testClock sets the clock of a server.
type testClock struct {
	t    *testing.T
	file string
}

// newTestClock returns a clock that is right.
func newTestClock(t *testing.T) *testClock {
	t.Helper()
	c := &testClock{t, filepath.Join(t.TempDir(), "off")}
	c.set(0)
	return c
}

// set makes the clock wrong by off.
func (c *testClock) set(off time.Duration) {
	c.t.Helper()
	c.write(off.String())
}

// stop stops the clock at a time.
func (c *testClock) stop(at time.Time) {
	c.t.Helper()
	c.write(at.Format(time.RFC3339Nano))
}

func (c *testClock) write(text string) {
	c.t.Helper()
	next := c.file + "-next"
	must(c.t, os.WriteFile(next, []byte(text), 0o600))
	must(c.t, os.Rename(next, c.file))
}

// serve starts a server with the clock.
func (c *testClock) serve(data string, vars ...string) *binary.Server {
	c.t.Helper()
	s := binary.LaunchProgram(c.t, binary.Build(c.t, "holdfast/test/fault/clocked"), data, append(vars, "CLOCKED_BY="+c.file)...)
	s.Await("/readyz", http.StatusOK)
	return s
}
