package storetest

import (
	"slices"
	"testing"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/suite"
	ts "holdfast/internal/tokenserver"
)

func testDelete(t *testing.T, e env) {
	ctx, a, b := t.Context(), account(), account()
	first := e.signIn(t, a, signIn(7, "aa", 5))
	later := signIn(8, "bb", 8)
	later.Now = t0.Add(time.Second)
	second := e.signIn(t, a, later)
	other := e.signIn(t, b, signIn(7, "aa", 5))

	for i := range 2 {
		deleted, err := e.Store.Delete(ctx, a, t0.Add(time.Duration(i+1)*time.Hour))
		must(t, err)
		if len(deleted) != 2 || deleted[0].UID != second.UID || deleted[1].UID != first.UID {
			t.Fatalf("deleted %+v", deleted)
		}
		for i, at := range []time.Time{t0.Add(time.Hour), later.Now} {
			if u := deleted[i]; !u.IsDeleted() || !u.Replaced || u.ReplacedAt != at.UnixMilli() || u.Node != caseNode {
				t.Errorf("deleted %+v", u)
			}
		}
		if got := e.users(t, a); !slices.Equal(got, deleted) {
			t.Errorf("the rows are %+v, want %+v", got, deleted)
		}
	}
	_, err := e.Store.SignIn(ctx, a, closed(signIn(1, "aa", 1)))
	suite.WantCode(t, "SignIn when new accounts are refused", err, errcode.Denied)
	back := e.signIn(t, a, signIn(1, "aa", 1))
	if back.UID == first.UID || back.UID == second.UID || back.Generation != 1 || back.CreatedAt <= second.CreatedAt {
		t.Errorf("came back as %+v", back)
	}
	if got := e.users(t, b); len(got) != 1 || got[0] != other {
		t.Errorf("the other account's rows are %+v", got)
	}
	must(t, e.Store.Forget(ctx, first.UID))
	must(t, e.Store.Forget(ctx, second.UID))
	if got := e.users(t, a); len(got) != 1 || got[0] != back {
		t.Errorf("after the rows were forgotten they are %+v", got)
	}

	_, err = e.Store.Replace(ctx, b, t0, true)
	must(t, err)
	_, err = e.Store.Delete(ctx, b, t0)
	must(t, err)
	e.signIn(t, b, signIn(7, "aa", 5))
	if none, err := e.Store.Delete(ctx, account(), t0); err != nil || len(none) != 0 {
		t.Errorf("an unknown account: %+v, %v", none, err)
	}
	_, err = e.Store.Delete(ctx, ts.Account{}, t0)
	suite.WantCode(t, "Delete", err, errcode.Denied)
}

func testDeleteAll(t *testing.T, e env) {
	a := account()
	for i := range int64(ts.MaxUsers + 5) {
		e.insert(t, a, at(row(i+1, "aa", i+1), 1000+i, 1001+i))
	}
	if deleted, err := e.Store.Delete(t.Context(), a, t0); err != nil || len(deleted) != ts.MaxUsers+5 {
		t.Errorf("deleted %d rows, %v", len(deleted), err)
	}
}

func testDueDeleted(t *testing.T, e env) {
	ctx := t.Context()
	e.addNode(t, caseNode)
	a, b := account(), account()
	late := e.insert(t, a, at(row(6, "aa", 5), 1000, 5000))
	early := e.insert(t, b, at(row(6, "aa", 5), 1000, 2000))
	gone := e.insert(t, b, at(row(ts.Deleted, "aa", 5), 1000, 3000))
	last := e.insert(t, b, at(row(ts.Deleted, "aa", 5), 1000, 6000))
	for _, c := range []struct {
		replaced, deleted int64
		want              []int64
	}{
		{2000, 3000, nil},
		{2001, 3000, []int64{early}},
		{2000, 3001, []int64{gone}},
		{2001, 6001, []int64{early, gone, last}},
		{6001, 6001, []int64{early, gone, late, last}},
	} {
		d := ts.Deadlines{Replaced: time.UnixMilli(c.replaced), Deleted: time.UnixMilli(c.deleted)}
		for _, limit := range []int{1, 10} {
			var got []int64
			for after := (ts.DueUser{}); ; {
				page, err := e.Store.Due(ctx, d, after, limit)
				must(t, err)
				if len(page) == 0 {
					break
				}
				got, after = append(got, uids(page, ofDue)...), page[len(page)-1]
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("due at %d and %d in pages of %d: %v, want %v", c.replaced, c.deleted, limit, got, c.want)
			}
		}
	}
}

func testRevoked(t *testing.T, e env) {
	ctx := t.Context()
	e.addNode(t, caseNode)
	denied, allowed, deleted, retired, replaced := account(), account(), account(), account(), account()
	var users []ts.User
	for _, a := range []ts.Account{denied, allowed, deleted, retired, replaced} {
		users = append(users, e.signIn(t, a, signIn(7, "aa", 5)))
	}
	want := func(what string, want ...bool) {
		t.Helper()
		r, err := e.Store.Revoked(ctx, t0)
		must(t, err)
		var got []bool
		for i := range users {
			got = append(got, r.Has(users[i].Account().FxAUID, users[i].UID))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: revoked are %v, want %v", what, got, want)
		}
	}
	want("nobody", false, false, false, false, false)
	must(t, e.Store.SetAccess(ctx, denied, ts.Rule{Access: ts.Denied}, t0))
	must(t, e.Store.SetAccess(ctx, allowed, ts.Rule{Access: ts.Allowed}, t0))
	since := t0.Add(time.Millisecond)
	_, err := e.Store.Delete(ctx, deleted, since)
	must(t, err)
	_, err = e.Store.Replace(ctx, retired, since, true)
	must(t, err)
	_, err = e.Store.Replace(ctx, replaced, since, false)
	must(t, err)
	want("each in its way", true, false, true, true, false)

	back := e.signIn(t, deleted, signIn(7, "aa", 5))
	users[1] = back
	must(t, e.Store.SetAccess(ctx, denied, ts.Rule{Access: ts.Unlisted}, t0))
	want("allowed again, and come back", false, false, true, true, false)
	if r, err := e.Store.Revoked(ctx, since); err != nil || r.Has(deleted.FxAUID, users[2].UID) {
		t.Errorf("a user whose tokens have expired is revoked: %v", err)
	}
}
