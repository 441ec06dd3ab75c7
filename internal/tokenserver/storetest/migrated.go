package storetest

import (
	"errors"
	"testing"
	"time"

	"holdfast/internal/suite"
	ts "holdfast/internal/tokenserver"
)

// Migrated checks a store on migrated data: every row is intact, and writes continue. For each schema version,
// testdata/schema has a script that writes only this data:
//
//   - two nodes, the second down, and that there was a first;
//   - alice with new keys, and bob, deleted, on the first node;
//   - carol denied, and dave refused twice.
func Migrated(t *testing.T, s ts.Store) {
	t.Helper()
	ctx := t.Context()
	must(t, s.Ping(ctx))
	const before = 1795262400000
	alice := ts.Account{FxAUID: "alice", Domain: "accounts.example"}
	bob := ts.Account{FxAUID: "bob", Domain: "accounts.example"}
	one := ts.Node{ID: 1, URL: "https://one.example", Available: 5, Load: 2, Capacity: 10}
	two := ts.Node{ID: 2, URL: "https://two.example", Load: 7, Capacity: 7, Downed: true, Backoff: true}
	old := ts.User{
		UID: 1, Email: alice.Email(), Generation: 7, ClientState: "aa", CreatedAt: before - 1000,
		Replaced: true, ReplacedAt: before, NodeID: 1, Node: one.URL,
	}
	current := ts.User{
		UID: 2, Email: alice.Email(), Generation: 8, ClientState: "bb", CreatedAt: before,
		NodeID: 1, KeysChangedAt: ts.At(8), Node: one.URL,
	}
	gone := ts.User{
		UID: 3, Email: bob.Email(), Generation: ts.Retired, ClientState: "cc", CreatedAt: before - 1000,
		Replaced: true, ReplacedAt: before + 1, NodeID: 1, KeysChangedAt: ts.At(5), Node: one.URL,
	}

	nodes, err := s.ListNodes(ctx)
	must(t, err)
	suite.Equal(t, "nodes", nodes, []ts.Node{one, two})
	users, err := s.ListUsers(ctx, 0, 10, true)
	must(t, err)
	suite.Equal(t, "users", users, []ts.User{old, current, gone})
	rules, err := s.ListAccess(ctx, "", 10)
	must(t, err)
	suite.Equal(t, "access", rules, []ts.Rule{{FxAUID: "carol", Access: ts.Denied, Note: "it's over", CreatedAt: before}})
	refused, err := s.Refused(ctx, 10)
	must(t, err)
	suite.Equal(t, "refused", refused, []ts.Refused{{FxAUID: "dave", FirstAt: before, LastAt: before + 1, Attempts: 2}})
	if added, err := s.EnsureFirstNode(ctx, ts.Node{URL: "https://three.example", Capacity: 1}); err != nil || added {
		t.Errorf("a first node was added to those that are there: %v, %v", added, err)
	}

	labels, err := s.LabelsOf(ctx, []string{"alice", "bob"})
	must(t, err)
	if want := (ts.Label{FxAUID: "alice", Text: "Alice", SetAt: before}); len(labels) > 0 && (len(labels) > 1 || labels["alice"] != want) {
		t.Errorf("labels: %+v, want %+v", labels, want)
	}
	if set, err := s.SetLabel(ctx, alice, ts.Label{Text: "Anna"}); err != nil || !set {
		t.Errorf("label: %v, %v", set, err)
	}

	due, err := s.Due(ctx, until(time.UnixMilli(before+1000)), ts.DueUser{}, 10)
	must(t, err)
	suite.Equal(t, "due", due, []ts.DueUser{{User: old}, {User: gone}})
	in := signIn(8, "bb", 8)
	in.Now = time.UnixMilli(before + 2000)
	if u, err := s.SignIn(ctx, alice, in); err != nil || u != current {
		t.Errorf("alice signs in as %+v, %v", u, err)
	}
	var refusal *ts.Refusal
	if _, err := s.SignIn(ctx, alice, signIn(7, "aa", 0)); !errors.As(err, &refusal) {
		t.Errorf("alice with her old keys: %v", err)
	}
	u, err := s.SignIn(ctx, account(), in)
	if err != nil || u.UID != 4 || u.Node != one.URL {
		t.Errorf("a new account is %+v, %v", u, err)
	}
	one.Available, one.Load = 4, 3
	nodes, err = s.ListNodes(ctx)
	must(t, err)
	suite.Equal(t, "nodes after a new account", nodes, []ts.Node{one, two})
	must(t, s.Forget(ctx, old.UID))
	users, err = s.ListUsers(ctx, 0, 2, true)
	must(t, err)
	suite.Equal(t, "users after one was forgotten", users, []ts.User{current, gone})
}
