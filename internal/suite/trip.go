package suite

import (
	"fmt"
	"sync/atomic"
	"testing"

	"holdfast/internal/errcode"
)

// Trip is an engine that fails once, at its n-th point.
type Trip struct {
	left  atomic.Int64
	point atomic.Value // string: the failed point
}

func (p *Trip) Fault(point string) error {
	if p.left.Add(-1) != 0 {
		return nil
	}
	p.point.Store(point)
	return errcode.New(errcode.Unavailable, "the engine fails here")
}

func (p *Trip) Arm(n int64) {
	p.point.Store("")
	p.left.Store(n)
}

func (p *Trip) Disarm() (point string) {
	p.left.Store(0)
	return p.point.Load().(string)
}

// Try fails an operation at its n-th point. The operation must have 1 to 100 points.
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

// FailEach fails an operation at its first point, then its second, until it succeeds. prepare runs before each
// attempt and returns the operation and a check after failure. A failure must report Unavailable.
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
