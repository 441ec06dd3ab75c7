package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"holdfast/internal/fault"
	ss "holdfast/internal/syncstorage"
)

func faultChecks() []check {
	var checks []check
	for _, s := range faultySteps() {
		checks = append(checks, check{s.name, func(t *testing.T, u *user) { faultyStep(t, u, s) }})
	}
	return checks
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
	u.store = u.h.Faulty(t, p.fault)
	return p
}

// faultySteps are the writes, each of which can succeed again and again on
// what prepare has left.
func faultySteps() []method {
	var steps []method
	for _, m := range methods() {
		if m.kind != reads {
			steps = append(steps, m)
		}
	}
	return append(steps, method{"Put in a new collection", theRecord, writes,
		func(ctx context.Context, u *user, _ string, _ ss.BatchID, p ss.Precondition) error {
			_, err := u.store.Put(ctx, u.owner, u.writeIf(newName(), p), bso("a", "x"))
			return err
		}})
}

// faultyStep lets a step fail at its first point, then at its second, until it
// gets through: every time an error comes back and nothing of the step is
// there, and the next step works.
func faultyStep(t *testing.T, u *user, m method) {
	p := u.faulty(t)
	for n := int64(1); ; n++ {
		if n > 100 {
			t.Fatal("the step does not come to an end")
		}
		u := u.other()
		u.post("bookmarks", bso("a", "old"), bso("b", "old"))
		u.put("tabs", bso("a", "old"))
		b := u.stage("bookmarks", bso("b", "staged"), bso("c", "staged"))
		u.wait(1e9)
		before := u.state()

		p.arm(n)
		err := m.call(t.Context(), u, "bookmarks", b, ss.Precondition{})
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
		u.wantState(what, before)
		u.append("bookmarks", b, bso("d", "after"))
		u.commit("bookmarks", b)
		equalIDs(t, what+": records in the end", u.list("bookmarks"), "a", "b", "c", "d")
		if got := u.get("bookmarks", "a").payload; got != "old" && !(u.h.StagesFirst && got == "changed") {
			t.Errorf("%s: a has %q", what, got)
		}
		u.state()
		must(t, m.name+" after "+what, m.call(t.Context(), u, "bookmarks", u.stage("bookmarks"), ss.Precondition{}))
	}
}

// faultySweep: a sweep that fails has removed nothing of what is alive, and
// the next one goes on.
func faultySweep(t *testing.T, u *user) {
	p := u.faulty(t)
	u.at(lastSweep).drain()
	u.post("tabs", mortal("a", "x", 10), mortal("b", "x", 10), bso("c", "x"))
	u.stage("forms", bso("a", "x"))
	u.now += 3 * hour
	before := u.state()
	for n := int64(1); ; n++ {
		p.arm(n)
		_, err := u.store.Sweep(t.Context(), u.now, 100)
		point := p.disarm()
		if point != "" {
			wantFault(t, "a sweep that fails at "+point, err, fault.Unavailable)
			u.wantState("it", before)
			continue
		}
		must(t, "Sweep", err)
		break
	}
	u.drain()
	u.wantState("the sweep", before)
}
