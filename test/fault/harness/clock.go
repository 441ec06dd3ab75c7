package harness

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"holdfast/test/binary"
)

type Clock struct {
	t    *testing.T
	File string
}

func NewClock(t *testing.T) *Clock {
	t.Helper()
	c := &Clock{t, filepath.Join(t.TempDir(), "off")}
	c.Set(0)
	return c
}

func (c *Clock) Set(off time.Duration) {
	c.t.Helper()
	c.write(off.String())
}

// Stop stops the clock at a time.
func (c *Clock) Stop(at time.Time) {
	c.t.Helper()
	c.write(at.Format(time.RFC3339Nano))
}

func (c *Clock) write(text string) {
	c.t.Helper()
	next := c.File + "-next"
	Must(c.t, os.WriteFile(next, []byte(text), 0o600))
	Must(c.t, os.Rename(next, c.File))
}

// Serve starts a server with the clock.
func (c *Clock) Serve(data string, vars ...string) *binary.Server {
	c.t.Helper()
	s := binary.LaunchProgram(c.t, binary.Build(c.t, "holdfast/test/fault/clocked"), data, append(vars, "CLOCKED_BY="+c.File)...)
	s.Await("/readyz", http.StatusOK)
	return s
}
