package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"holdfast/internal/testdb"
	ts "holdfast/internal/tokenserver"
)

func (e env) atOnce(t *testing.T, n int, a func(i int) ts.Account, in func(i int) ts.SignIn) (users []ts.User, errs []error) {
	t.Helper()
	users = make([]ts.User, n)
	errs = testdb.Concurrently(n, func(i int) (err error) {
		store := e.Store
		if i%2 == 1 {
			store = e.Other
		}
		users[i], err = store.SignIn(t.Context(), a(i), in(i))
		return err
	})
	return users, errs
}

func always[T any](v T) func(int) T { return func(int) T { return v } }

func testFirstSignInsAtOnce(t *testing.T, e env) {
	a := account()
	users, errs := e.atOnce(t, 16, always(a), always(signIn(7, "aa", 5)))
	for i := range users {
		if errs[i] != nil || users[i].UID != users[0].UID {
			t.Errorf("sign-in %d: user %d, %v; the first is user %d", i, users[i].UID, errs[i], users[0].UID)
		}
	}
	if got := e.users(t, a); len(got) != 1 {
		t.Errorf("%d rows: %+v", len(got), got)
	}
}

func testNewKeysAtOnce(t *testing.T, e env) {
	a := account()
	first := e.signIn(t, a, signIn(7, "aa", 5))
	users, errs := e.atOnce(t, 8, always(a), func(i int) ts.SignIn { return signIn(8, fmt.Sprintf("b%d", i), 8) })
	won := 0
	for i, err := range errs {
		var refusal *ts.Refusal
		switch {
		case err == nil:
			won++
			if users[i].UID == first.UID {
				t.Error("new keys got the old storage user")
			}
		case !errors.As(err, &refusal) || refusal.Reason != ts.BadClientState:
			t.Errorf("sign-in %d: %v", i, err)
		}
	}
	if got := e.unreplaced(t, a); won != 1 || len(got) != 1 || len(e.users(t, a)) != 2 {
		t.Errorf("%d won, and the rows are %+v", won, e.users(t, a))
	}
}

func testRetireDuringSignIns(t *testing.T, e env) {
	for range 5 {
		a := account()
		e.signIn(t, a, signIn(7, "aa", 5))
		retired := make(chan error, 1)
		go func() {
			_, err := e.Other.Replace(t.Context(), a, t0, true)
			retired <- err
		}()
		_, errs := e.atOnce(t, 4, always(a), func(i int) ts.SignIn { return signIn(int64(8+i), fmt.Sprintf("b%d", i), int64(8+i)) })
		must(t, <-retired)
		for i, err := range errs {
			var refusal *ts.Refusal
			if err != nil && !errors.As(err, &refusal) {
				t.Errorf("sign-in %d: %v", i, err)
			}
		}
		if got := e.unreplaced(t, a); len(got) != 0 {
			t.Fatalf("a deleted account has %+v", got)
		}
	}
}

func testPlacesAtOnce(t *testing.T, e env) {
	e.addNode(t, "https://a.example")
	e.addNode(t, "https://b.example")
	const n = 30
	users, errs := e.atOnce(t, n, func(int) ts.Account { return account() }, always(signIn(7, "aa", 5)))
	uids := map[int64]bool{}
	on := map[int64]int64{}
	for i := range users {
		must(t, errs[i])
		uids[users[i].UID] = true
		on[users[i].NodeID]++
	}
	if len(uids) != n {
		t.Errorf("%d accounts are %d storage users", n, len(uids))
	}
	nodes, err := e.Store.ListNodes(t.Context())
	must(t, err)
	for _, node := range nodes {
		if node.Load != on[node.ID] || node.Available != 1<<30-on[node.ID] || node.Load == 0 {
			t.Errorf("%d accounts are on %+v", on[node.ID], node)
		}
	}
}

func testFirstNodeAtOnce(t *testing.T, e env) {
	var wg sync.WaitGroup
	added := make([]bool, 8)
	errs := make([]error, 8)
	for i := range added {
		store := e.Store
		if i%2 == 1 {
			store = e.Other
		}
		wg.Go(func() {
			added[i], errs[i] = store.EnsureFirstNode(t.Context(), ts.Node{URL: fmt.Sprintf("https://%d.example", i), Capacity: 1})
		})
	}
	wg.Wait()
	n := 0
	for i := range added {
		must(t, errs[i])
		if added[i] {
			n++
		}
	}
	if nodes, err := e.Store.ListNodes(t.Context()); n != 1 || len(nodes) != 1 || err != nil {
		t.Errorf("%d added, the nodes are %+v, %v", n, nodes, err)
	}
}
