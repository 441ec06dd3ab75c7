package storetest

import (
	"errors"
	"fmt"
	"testing"

	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/suite"
	"holdfast/internal/testdb"
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

func (u *user) faulty(t *testing.T) *suite.Trip {
	t.Helper()
	if u.h.Faulty == nil {
		t.Fatal("Harness.Faulty is not set")
	}
	p := &suite.Trip{}
	u.h = u.h.Faulty(t, p.Fault)
	return p
}

type everything struct {
	state
	changes []ext.Change
	events  []Event
	schemas []ext.Schema
	install ext.Install
	revoked []string
}

func (u *user) everything() everything {
	u.t.Helper()
	in, err := u.h.Installs.Install(u.t.Context(), u.owner)
	if !errors.Is(err, ext.ErrNoInstall) {
		must(u.t, "Install", err)
	}
	return everything{u.state(), u.changes(0), u.events(), u.schemas("s"), in, u.revoked()}
}

func faultyStep(t *testing.T, u *user, m method) {
	p := u.faulty(t)
	p.FailEach(t, m.name, func() (operation func() error, check func(what string)) {
		u := u.other()
		prepareSteps(u)
		before := u.everything()
		return func() error { return m.call(t.Context(), u) }, func(what string) {
			equal(t, "the state after "+what, u.everything(), before)
			must(t, m.name+" after "+what, m.call(t.Context(), u))
			wantLives(t, u)
			u.state()
		}
	})
}

func faultsUnderWriters(t *testing.T, u *user) {
	p := u.faulty(t)
	var written [parallel]ext.Revision
	for round := range int64(6) {
		p.Arm(3 + 2*round)
		testdb.Concurrently(parallel, func(i int) error {
			a, err := u.try(put("s", fmt.Sprint(i), fmt.Sprint(round)), put("s", "shared", fmt.Sprint(i)))
			switch {
			case err == nil:
				written[i] = a.Items[0].Revision
			case !errcode.Is(err, errcode.Unavailable):
				t.Errorf("a write on a failing engine: %v", err)
			}
			return err
		})
		p.Disarm()
		for i, r := range written {
			if r > 0 {
				equal(t, "revision", u.get("s", fmt.Sprint(i)).Revision, r)
			}
		}
		wantLives(t, u)
		u.state()
	}
}
