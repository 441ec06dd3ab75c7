package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	ext "holdfast/internal/extstorage"
	"holdfast/internal/fault"
)

func faultChecks() []check {
	var checks []check
	for _, m := range methods() {
		if m.writes {
			checks = append(checks, check{m.name, func(t *testing.T, u *user) { faultyStep(t, u, m) }})
		}
	}
	return append(checks, check{"UnderWriters", faultsUnderWriters})
}

// trip is an engine that fails once, at the n-th point from now on.
type trip struct {
	left  atomic.Int64
	point atomic.Value // where it failed
}

// errTrip is what the engine says then.
var errTrip error = fault.New(fault.Unavailable, "the engine fails here")

func (p *trip) fault(point string) error {
	if p.left.Add(-1) != 0 {
		return nil
	}
	p.point.Store(point)
	return errTrip
}

// arm makes the n-th point fail; disarm reports where it did.
func (p *trip) arm(n int64) {
	p.point.Store("")
	p.left.Store(n)
}

func (p *trip) disarm() (point string) {
	p.left.Store(0)
	return p.point.Load().(string)
}

func (u *user) faulty(t *testing.T) *trip {
	t.Helper()
	if u.h.Faulty == nil {
		t.Skip("the backend has no Faulty in its Harness")
	}
	p := &trip{}
	u.h = u.h.Faulty(t, p.fault)
	return p
}

// everything is state with what a client does not see beside it.
type everything struct {
	state
	changes []ext.Change
	events  []Event
	schemas []ext.Schema
	install ext.Install
}

func (u *user) everything() everything {
	u.t.Helper()
	in, err := u.h.Installs.Install(u.t.Context(), u.owner)
	if !errors.Is(err, ext.ErrNoInstall) {
		must(u.t, "Install", err)
	}
	return everything{u.state(), u.changes(0), u.events(), u.schemas("s"), in}
}

// faultyStep lets a step fail at its first point, then at its second, until it
// gets through: every time an error comes back and nothing of the step is there,
// and the same step works after it.
func faultyStep(t *testing.T, u *user, m method) {
	p := u.faulty(t)
	for n := int64(1); ; n++ {
		if n > 100 {
			t.Fatal("the step does not come to an end")
		}
		u := u.other()
		prepareSteps(u)
		before := u.everything()
		p.arm(n)
		err := m.call(t.Context(), u)
		point := p.disarm()
		if point == "" {
			must(t, m.name, err)
			if n == 1 {
				t.Error("the step has no point where the engine can fail")
			}
			return
		}
		what := fmt.Sprintf("%s that fails at %q", m.name, point)
		wantFault(t, what, err, fault.Unavailable)
		equal(t, "what is there after "+what, u.everything(), before)
		must(t, m.name+" after "+what, m.call(t.Context(), u))
		wantLives(t, u)
		u.state()
	}
}

// faultsUnderWriters: an engine that fails now and then under many writers: who
// got an answer finds what it wrote, in lives without a gap.
func faultsUnderWriters(t *testing.T, u *user) {
	p := u.faulty(t)
	var written [parallel]ext.Revision
	for round := range int64(6) {
		p.arm(3 + 2*round)
		together(parallel, func(i int) error {
			a, err := u.try(put("s", fmt.Sprint(i), fmt.Sprint(round)), put("s", "shared", fmt.Sprint(i)))
			switch {
			case err == nil:
				written[i] = a.Items[0].Revision
			case !fault.Is(err, fault.Unavailable):
				t.Errorf("a write under a failing engine: %v", err)
			}
			return err
		})
		p.disarm()
		for i, r := range written {
			if r > 0 {
				equal(t, "revision", u.get("s", fmt.Sprint(i)).Revision, r)
			}
		}
		wantLives(t, u)
		u.state()
	}
}
