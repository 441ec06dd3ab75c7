package storetest

import (
	"testing"

	"holdfast/internal/fault"
	"holdfast/internal/testdb"
	ts "holdfast/internal/tokenserver"
)

// testFaults has every write fail at every point where the engine can: then it
// has left nothing, and works when it is tried again.
func testFaults(t *testing.T, open Opener) {
	type step struct {
		name    string
		prepare func(e env, a ts.Account)
		run     func(e env, a ts.Account) error
	}
	ctx := t.Context()
	enter := func(in ts.SignIn) func(e env, a ts.Account) error {
		return func(e env, a ts.Account) error { _, err := e.Store.SignIn(ctx, a, in); return err }
	}
	known := func(e env, a ts.Account) { must(t, enter(signIn(7, "aa", 5))(e, a)) }
	steps := []step{
		{"first sign-in", nil, enter(signIn(7, "aa", 5))},
		{"same keys", known, enter(signIn(7, "aa", 5))},
		{"newer generation", known, enter(signIn(8, "aa", 5))},
		{"new keys", known, enter(signIn(8, "bb", 8))},
		{"not admitted", nil, func(e env, a ts.Account) error {
			_, err := e.Store.SignIn(ctx, a, closed(signIn(7, "aa", 5)))
			if fault.Is(err, fault.Denied) {
				return nil
			}
			return err
		}},
		{"replace", known, func(e env, a ts.Account) error { _, err := e.Store.Replace(ctx, a, noon, true); return err }},
		{"change password", known, func(e env, a ts.Account) error { _, err := e.Store.ChangePassword(ctx, a, 9); return err }},
		{"allow", nil, func(e env, a ts.Account) error {
			return e.Store.SetAccess(ctx, a, ts.Rule{Access: ts.Allowed}, noon)
		}},
		{"add a node", nil, func(e env, a ts.Account) error {
			_, err := e.Store.AddNode(ctx, ts.Node{URL: "https://" + a.FxAUID, Capacity: 5})
			return err
		}},
		{"ensure the first node", func(e env, _ ts.Account) { e.exec(t, `DELETE FROM first_node`); e.exec(t, `DELETE FROM nodes`) },
			func(e env, _ ts.Account) error {
				_, err := e.Store.EnsureFirstNode(ctx, ts.Node{URL: caseNode, Available: 5, Capacity: 5})
				return err
			}},
	}

	var trip testdb.Trip
	e := newEnv(t, open(t, trip.Fault))
	e.addNode(t, caseNode)
	for _, s := range steps {
		a := account()
		if s.prepare != nil {
			s.prepare(e, a)
		}
		failed := int64(0)
		for n := int64(1); ; n++ {
			before := e.dump(t)
			trip.Arm(n)
			err := s.run(e, a)
			trip.Disarm()
			if err == nil {
				break
			}
			failed++
			wantCode(t, s.name, err, fault.Unavailable)
			if after := e.dump(t); after != before {
				t.Fatalf("%s, failing at point %d, has left\n%s, there was\n%s", s.name, n, after, before)
			}
		}
		if failed == 0 && s.name != "same keys" {
			t.Errorf("%s never failed", s.name)
		}
	}
}
