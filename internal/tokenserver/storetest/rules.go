package storetest

import (
	"errors"
	"reflect"
	"testing"

	ts "holdfast/internal/tokenserver"
)

func testCases(t *testing.T, e env) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			a := account()
			if c.State.Access != ts.Unlisted {
				must(t, e.Store.SetAccess(t.Context(), a, ts.Rule{Access: c.State.Access}, t0))
			}
			oldest := len(c.State.Users) - 1
			for i := range c.State.Users {
				e.insert(t, a, c.State.Users[oldest-i])
			}
			before := e.users(t, a)
			u, err := e.Store.SignIn(t.Context(), a, c.SignIn)
			if c.Refusal != nil {
				e.checkRefused(t, a, before, err, c.Refusal)
				return
			}
			must(t, err)
			e.checkPlan(t, a, before, u, c.Plan)
		})
	}
}

func (e env) checkRefused(t *testing.T, a ts.Account, before []ts.User, err error, want *ts.Refusal) {
	t.Helper()
	var got *ts.Refusal
	if !errors.As(err, &got) || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", err, want)
	}
	if after := e.users(t, a); !reflect.DeepEqual(after, before) {
		t.Errorf("a refusal has changed\n%+v\nto\n%+v", before, after)
	}
}

func (e env) checkPlan(t *testing.T, a ts.Account, before []ts.User, u ts.User, p ts.Plan) {
	t.Helper()
	want := p.User
	want.Email, want.Node = a.Email(), caseNode
	want.UID, want.NodeID = u.UID, u.NodeID
	if u != want || u.NodeID == 0 {
		t.Errorf("signed in as\n%+v, want\n%+v", u, want)
	}
	known := map[int64]bool{}
	for _, b := range before {
		known[b.UID] = true
	}
	if known[u.UID] != (p.Op != ts.Insert) {
		t.Errorf("uid %d, of %+v", u.UID, before)
	}
	for _, after := range e.users(t, a) {
		switch {
		case after.UID == u.UID && after != u:
			t.Errorf("the row is\n%+v, answered\n%+v", after, u)
		case after.UID != u.UID && !after.Replaced:
			t.Errorf("another row is not replaced: %+v", after)
		case after.UID != u.UID && after.ReplacedAt != u.CreatedAt && !wasReplaced(before, after):
			t.Errorf("replaced at %d by a row of %d", after.ReplacedAt, u.CreatedAt)
		}
	}
}

func wasReplaced(before []ts.User, u ts.User) bool {
	for _, b := range before {
		if b.UID == u.UID {
			return b.Replaced && b.ReplacedAt == u.ReplacedAt
		}
	}
	return false
}
