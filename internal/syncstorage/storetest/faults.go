package storetest

import (
	"context"
	"testing"

	"holdfast/internal/suite"
	ss "holdfast/internal/syncstorage"
)

func faultChecks() []check {
	var checks []check
	for _, s := range faultySteps() {
		checks = append(checks, check{s.name, func(t *testing.T, u *user) { faultyStep(t, u, s) }})
	}
	return checks
}

func (u *user) faulty(t *testing.T) *suite.Trip {
	t.Helper()
	if u.h.Faulty == nil {
		t.Fatal("Harness.Faulty is not set")
	}
	p := &suite.Trip{}
	u.store = u.h.Faulty(t, p.Fault)
	return p
}

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

func faultyStep(t *testing.T, u *user, m method) {
	p := u.faulty(t)
	p.FailEach(t, m.name, func() (operation func() error, check func(what string)) {
		u := u.other()
		u.post("bookmarks", bso("a", "old"), bso("b", "old"))
		u.put("tabs", bso("a", "old"))
		b := u.stage("bookmarks", bso("b", "staged"), bso("c", "staged"))
		u.wait(1e9)
		before := u.state()
		return func() error { return m.call(t.Context(), u, "bookmarks", b, ss.Precondition{}) }, func(what string) {
			u.wantState(what, before)
			u.append("bookmarks", b, bso("d", "after"))
			u.commit("bookmarks", b)
			equalIDs(t, what+": records in the end", u.list("bookmarks"), "a", "b", "c", "d")
			equal(t, what+": a has", u.get("bookmarks", "a").payload, "old")
			u.state()
			must(t, m.name+" after "+what, m.call(t.Context(), u, "bookmarks", u.stage("bookmarks"), ss.Precondition{}))
		}
	})
}

func faultySweep(t *testing.T, u *user) {
	p := u.faulty(t)
	u.at(lastSweep).drain()
	u.post("tabs", expiring("a", "x", 10), expiring("b", "x", 10), bso("c", "x"))
	u.stage("forms", bso("a", "x"))
	u.now += 3 * hour
	before := u.state()
	p.FailEach(t, "Sweep", func() (operation func() error, check func(what string)) {
		return func() error { _, err := u.store.Sweep(t.Context(), u.now, 100); return err },
			func(what string) { u.wantState(what, before) }
	})
	u.drain()
	u.wantState("the sweep", before)
}
