package storetest

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/suite"
	ts "holdfast/internal/tokenserver"
)

// testColumns checks the order of columns, because operators' scripts select * and unpack by position.
func testColumns(t *testing.T, e env) {
	n := e.addNode(t, "https://a.example")
	u := e.signIn(t, ts.Account{FxAUID: "alice", Domain: "accounts.example"}, signIn(7, "aa", 5))
	e.exec(t, `UPDATE nodes SET available = 11, current_load = 12, capacity = 13, downed = 14, backoff = 15`)
	if n.ID != 1 || u.UID != 1 {
		t.Errorf("the first node has id %d, the first user uid %d", n.ID, u.UID)
	}
	for table, want := range map[string][]string{
		"services": {"1", "sync-1.5", "{node}/1.5/{uid}"},
		"nodes":    {"1", "1", "https://a.example", "11", "12", "13", "14", "15"},
		"users":    {"1", "1", "alice@accounts.example", "7", "aa", "100000", "-", "1", "5"},
	} {
		if got := e.SQL(t, "SELECT * FROM "+table); !reflect.DeepEqual(got, [][]string{want}) {
			t.Errorf("%s: %v, want %v", table, got, want)
		}
	}
}

func testFirstNode(t *testing.T, e env) {
	ctx := t.Context()
	ensure := func() bool {
		t.Helper()
		added, err := e.Store.EnsureFirstNode(ctx, ts.Node{URL: ts.Self, Available: 10, Capacity: 10})
		must(t, err)
		return added
	}
	if !ensure() || ensure() {
		t.Error("the first node is not added once")
	}
	if u := e.signIn(t, account(), signIn(7, "aa", 5)); u.Node != ts.Self {
		t.Errorf("signed in on %q", u.Node)
	}
	e.exec(t, `DELETE FROM nodes`)
	if ensure() {
		t.Error("a node that the operator has removed came back")
	}
}

func testNodesOfAnother(t *testing.T, e env) {
	ctx := t.Context()
	e.exec(t, `INSERT INTO nodes (service, node, available, current_load, capacity, downed, backoff)
		VALUES (1, 'https://theirs.example', 5, 0, 5, 0, 0)`)
	for range 2 {
		if added, err := e.Store.EnsureFirstNode(ctx, ts.Node{URL: ts.Self, Capacity: 10}); added || err != nil {
			t.Errorf("added: %v, %v", added, err)
		}
		e.exec(t, `DELETE FROM nodes`)
	}
}

func testAddNode(t *testing.T, e env) {
	ctx := t.Context()
	want := ts.Node{URL: "https://a.example", Available: 5, Load: 2, Capacity: 10, Downed: true, Backoff: true}
	got, err := e.Store.AddNode(ctx, want)
	must(t, err)
	want.ID = got.ID
	if got != want || got.ID <= 0 {
		t.Errorf("added %+v", got)
	}
	_, err = e.Store.AddNode(ctx, want)
	suite.WantCode(t, "the same URL", err, errcode.Conflict)
	if added, err := e.Store.EnsureNode(ctx, ts.Node{URL: want.URL}); added || err != nil {
		t.Errorf("ensured: %v, %v", added, err)
	}
	if added, err := e.Store.EnsureNode(ctx, ts.Node{URL: "https://b.example"}); !added || err != nil {
		t.Errorf("ensured: %v, %v", added, err)
	}
	nodes, err := e.Store.ListNodes(ctx)
	if err != nil || len(nodes) != 2 || nodes[0] != want || nodes[1].URL != "https://b.example" {
		t.Errorf("the nodes are %+v, %v", nodes, err)
	}
}

func testSetNode(t *testing.T, e env) {
	ctx := t.Context()
	e.addNode(t, "https://b.example")
	n, err := e.Store.AddNode(ctx, ts.Node{URL: "https://a.example", Available: 5, Load: 2, Capacity: 10})
	must(t, err)
	yes, no, seven := true, false, int64(7)
	for _, c := range []struct {
		change ts.NodeChange
		apply  func()
	}{
		{ts.NodeChange{}, func() {}},
		{ts.NodeChange{Downed: &yes}, func() { n.Downed = true }},
		{ts.NodeChange{Downed: &no, Backoff: &yes}, func() { n.Downed, n.Backoff = false, true }},
		{ts.NodeChange{Available: &seven}, func() { n.Available = 7 }},
		{ts.NodeChange{Capacity: &seven, Backoff: &no}, func() { n.Capacity, n.Backoff = 7, false }},
	} {
		c.apply()
		if got, err := e.Store.SetNode(ctx, n.URL, c.change); got != n || err != nil {
			t.Errorf("got %+v, %v; want %+v", got, err, n)
		}
	}
	nodes, err := e.Store.ListNodes(ctx)
	if err != nil || len(nodes) != 2 || nodes[1] != n || nodes[0].Available != 1<<30 {
		t.Errorf("the nodes are %+v, %v", nodes, err)
	}
	_, err = e.Store.SetNode(ctx, "https://nowhere.example", ts.NodeChange{Downed: &yes})
	suite.WantCode(t, "an unknown node", err, errcode.NotFound)
}

func testNoNode(t *testing.T, e env) {
	a := account()
	for _, node := range []ts.Node{
		{URL: "https://full.example", Available: 0, Load: 5, Capacity: 5},
		{URL: "https://down.example", Available: 5, Capacity: 5, Downed: true},
		{URL: "https://busy.example", Available: 0, Load: 1, Capacity: 50, Backoff: true},
	} {
		before := e.dump(t)
		if _, err := e.Store.SignIn(t.Context(), a, signIn(7, "aa", 5)); !errors.Is(err, ts.ErrNoNode) {
			t.Errorf("signed in: %v", err)
		}
		if after := e.dump(t); after != before {
			t.Errorf("before\n%s\nafter\n%s", before, after)
		}
		_, err := e.Store.AddNode(t.Context(), node)
		must(t, err)
	}
	e.addNode(t, "https://free.example")
	e.signIn(t, a, signIn(7, "aa", 5))
}

func testMoved(t *testing.T, e env) {
	ctx, a := t.Context(), account()
	old := e.addNode(t, "https://a.example")
	u := e.signIn(t, a, signIn(7, "aa", 5))
	yes := true
	_, err := e.Store.SetNode(ctx, old.URL, ts.NodeChange{Downed: &yes})
	must(t, err)
	if got := e.signIn(t, a, signIn(7, "aa", 5)); got.UID != u.UID {
		t.Errorf("a node that takes no new accounts lost an old one: %+v", got)
	}
	fresh := e.addNode(t, "https://b.example")
	e.exec(t, `DELETE FROM nodes WHERE id = %d`, old.ID)
	moved := e.signIn(t, a, signIn(7, "aa", 5))
	if moved.UID == u.UID || moved.NodeID != fresh.ID || moved.Generation != 7 || moved.KeysChangedAt != ts.At(5) {
		t.Errorf("moved to %+v", moved)
	}
	e.exec(t, `UPDATE nodes SET node = 'https://renamed.example' WHERE id = %d`, fresh.ID)
	if got := e.signIn(t, a, signIn(7, "aa", 5)); got.UID != moved.UID || got.Node != "https://renamed.example" {
		t.Errorf("after the node was renamed: %+v", got)
	}
}

func testOtherServices(t *testing.T, e env) {
	ctx, a := t.Context(), account()
	e.exec(t, `INSERT INTO services (id, service, pattern) VALUES (77, 'other-1.0', '')`)
	e.exec(t, `INSERT INTO nodes (id, service, node, available, current_load, capacity, downed, backoff)
		VALUES (77, 77, 'https://other.example', 50, 0, 50, 0, 0)`)
	e.exec(t, `INSERT INTO users (uid, service, email, generation, client_state, created_at, replaced_at, nodeid, keys_changed_at)
		VALUES (7777, 77, '%s', 9, 'cc', 1, 1, 77, 9), (7778, 77, '%s', 9, 'dd', 1, NULL, 77, 9)`, a.Email(), a.Email())
	if _, err := e.Store.SignIn(ctx, a, signIn(7, "aa", 5)); !errors.Is(err, ts.ErrNoNode) {
		t.Errorf("signed in on another service's node: %v", err)
	}
	if nodes, err := e.Store.ListNodes(ctx); err != nil || len(nodes) != 0 {
		t.Errorf("the nodes are %+v, %v", nodes, err)
	}
	e.addNode(t, "https://a.example")
	u := e.signIn(t, a, signIn(7, "aa", 5))
	_, err := e.Store.Replace(ctx, a, t0, true)
	must(t, err)
	must(t, e.Store.Forget(ctx, 7777))
	if users, err := e.Store.ListUsers(ctx, 0, 10, true); err != nil || len(users) != 1 || users[0].UID != u.UID {
		t.Errorf("the users are %+v, %v", users, err)
	}
	if due, err := e.Store.Due(ctx, until(t0.Add(time.Millisecond)), ts.DueUser{}, 10); err != nil || len(due) != 1 || due[0].UID != u.UID {
		t.Errorf("due are %+v, %v", due, err)
	}
	if rows := e.SQL(t, `SELECT uid FROM users WHERE service = 77 AND generation = 9`); len(rows) != 2 {
		t.Errorf("the other service has %d of its 2 rows", len(rows))
	}
}
