package storetest

import (
	"context"
	"testing"

	"holdfast/internal/errcode"
	"holdfast/internal/suite"
	ts "holdfast/internal/tokenserver"
)

type faultyWrite struct {
	name    string
	prepare func(t *testing.T, e env, a ts.Account)
	run     func(ctx context.Context, e env, a ts.Account) error
}

func faultChecks() []check {
	var checks []check
	for _, w := range faultyWrites() {
		checks = append(checks, check{w.name, func(t *testing.T, e env) {
			var trip suite.Trip
			e = newEnv(t, e.open, trip.Fault)
			e.addNode(t, caseNode)
			a := account()
			if w.prepare != nil {
				w.prepare(t, e, a)
			}
			trip.FailEach(t, w.name, func() (operation func() error, check func(what string)) {
				before := e.dump(t)
				return func() error { return w.run(t.Context(), e, a) },
					func(what string) { suite.Equal(t, "the tables after "+what, e.dump(t), before) }
			})
		}})
	}
	return checks
}

func faultyWrites() []faultyWrite {
	enter := func(in ts.SignIn) func(ctx context.Context, e env, a ts.Account) error {
		return func(ctx context.Context, e env, a ts.Account) error { _, err := e.Store.SignIn(ctx, a, in); return err }
	}
	known := func(t *testing.T, e env, a ts.Account) {
		e.signIn(t, a, signIn(7, "aa", 5))
		e.setLabel(t, a, ts.Label{Text: "anna@example.org", FromProfile: true})
	}
	return []faultyWrite{
		{"first sign-in", nil, enter(signIn(7, "aa", 5))},
		{"same keys, then new ones", known, func(ctx context.Context, e env, a ts.Account) error {
			if err := enter(signIn(7, "aa", 5))(ctx, e, a); err != nil {
				return err
			}
			return enter(signIn(8, "bb", 8))(ctx, e, a)
		}},
		{"newer generation", known, enter(signIn(8, "aa", 5))},
		{"new keys", known, enter(signIn(8, "bb", 8))},
		{"not admitted", nil, func(ctx context.Context, e env, a ts.Account) error {
			_, err := e.Store.SignIn(ctx, a, closed(signIn(7, "aa", 5)))
			if errcode.Is(err, errcode.Denied) {
				return nil
			}
			return err
		}},
		{"replace", known, func(ctx context.Context, e env, a ts.Account) error {
			_, err := e.Store.Replace(ctx, a, t0, true)
			return err
		}},
		{"delete", known, func(ctx context.Context, e env, a ts.Account) error {
			_, err := e.Store.Delete(ctx, a, t0)
			return err
		}},
		{"label", known, func(ctx context.Context, e env, a ts.Account) error {
			_, err := e.Store.SetLabel(ctx, a, ts.Label{Text: "Anna"})
			return err
		}},
		{"label of a profile", known, func(ctx context.Context, e env, a ts.Account) error {
			_, err := e.Store.SetLabel(ctx, a, ts.Label{Text: "bert@example.org", FromProfile: true})
			return err
		}},
		{"change password", known, func(ctx context.Context, e env, a ts.Account) error {
			_, err := e.Store.ChangePassword(ctx, a, 9)
			return err
		}},
		{"allow", nil, func(ctx context.Context, e env, a ts.Account) error {
			return e.Store.SetAccess(ctx, a, ts.Rule{Access: ts.Allowed}, t0)
		}},
		{"take a refused account off the lists", func(t *testing.T, e env, a ts.Account) {
			e.refuse(t, a)
			e.setLabel(t, a, ts.Label{Text: "anna@example.org", FromProfile: true})
			must(t, e.Store.SetAccess(t.Context(), a, ts.Rule{Access: ts.Allowed}, t0))
		}, func(ctx context.Context, e env, a ts.Account) error {
			return e.Store.SetAccess(ctx, a, ts.Rule{}, t0)
		}},
		{"add a node", nil, func(ctx context.Context, e env, a ts.Account) error {
			_, err := e.Store.AddNode(ctx, ts.Node{URL: "https://" + a.FxAUID, Capacity: 5})
			return err
		}},
		{"ensure the first node", func(t *testing.T, e env, _ ts.Account) {
			e.exec(t, `DELETE FROM first_node`)
			e.exec(t, `DELETE FROM nodes`)
		}, func(ctx context.Context, e env, _ ts.Account) error {
			_, err := e.Store.EnsureFirstNode(ctx, ts.Node{URL: caseNode, Available: 5, Capacity: 5})
			return err
		}},
	}
}
