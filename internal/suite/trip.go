package suite

import (
	"fmt"
	"sync/atomic"
	"testing"

	"holdfast/internal/errcode"
)

// Trip is an engine that fails once, at the n-th point.
type Trip struct {
	left  atomic.Int64
	point atomic.Value // string: where it failed
}

// Fault is called at every point where the engine can fail.
func (p *Trip) Fault(point string) error {
	if p.left.Add(-1) != 0 {
		return nil
	}
	p.point.Store(point)
	return errcode.New(errcode.Unavailable, "the engine fails here")
}

// Arm makes the n-th point fail.
func (p *Trip) Arm(n int64) {
	p.point.Store("")
	p.left.Store(n)
}

// Disarm returns where the engine failed; "" if it did not.
func (p *Trip) Disarm() (point string) {
	p.left.Store(0)
	return p.point.Load().(string)
}

// Try runs an operation that fails at its n-th point. An operation without any
// point fails the test, and so does one with more than 100.
func (p *Trip) Try(t testing.TB, n int64, operation func() error) (point string, err error) {
	t.Helper()
	if n > 100 {
		t.Fatal("the operation does not come to an end")
	}
	p.Arm(n)
	err = operation()
	if point = p.Disarm(); point == "" && n == 1 {
		t.Error("the operation has no point where the engine can fail")
	}
	return point, err
}

// FailEach fails an operation at its first point, then at its second, until it
// succeeds. prepare is called before each attempt; it returns the operation and
// what to check after it failed. A failed operation must report Unavailable.
func (p *Trip) FailEach(t testing.TB, name string, prepare func() (operation func() error, check func(what string))) {
	t.Helper()
	for n := int64(1); ; n++ {
		operation, check := prepare()
		point, err := p.Try(t, n, operation)
		if point == "" {
			Must(t, name, err)
			return
		}
		what := fmt.Sprintf("%s that fails at %q", name, point)
		WantCode(t, what, err, errcode.Unavailable)
		check(what)
	}
}
