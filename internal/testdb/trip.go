package testdb

import (
	"sync/atomic"
	"testing"

	"holdfast/internal/fault"
)

// Trip is an engine that fails once, at the n-th point from now on.
type Trip struct {
	left  atomic.Int64
	point atomic.Value // string: where it failed
}

// Fault is asked at every point where the engine can fail.
func (p *Trip) Fault(point string) error {
	if p.left.Add(-1) != 0 {
		return nil
	}
	p.point.Store(point)
	return fault.New(fault.Unavailable, "the engine fails here")
}

// Arm makes the n-th point fail.
func (p *Trip) Arm(n int64) {
	p.point.Store("")
	p.left.Store(n)
}

// Disarm reports where the engine failed; "" when it did not get there.
func (p *Trip) Disarm() (point string) {
	p.left.Store(0)
	return p.point.Load().(string)
}

// Try lets a step fail at its n-th point. A step that has none, and one that has
// more than anybody would wait for, fail the test.
func (p *Trip) Try(t testing.TB, n int64, step func() error) (point string, err error) {
	t.Helper()
	if n > 100 {
		t.Fatal("the step does not come to an end")
	}
	p.Arm(n)
	err = step()
	if point = p.Disarm(); point == "" && n == 1 {
		t.Error("the step has no point where the engine can fail")
	}
	return point, err
}
