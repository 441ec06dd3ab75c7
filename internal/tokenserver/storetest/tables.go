package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/suite"
	ts "holdfast/internal/tokenserver"
)

func testPing(t *testing.T, e env) {
	for range 2 {
		must(t, e.Store.Ping(t.Context()))
	}
}

func uids[T any](list []T, uid func(T) int64) (all []int64) {
	for _, v := range list {
		all = append(all, uid(v))
	}
	return all
}

func ofUser(u ts.User) int64   { return u.UID }
func ofDue(u ts.DueUser) int64 { return u.UID }

func testListUsers(t *testing.T, e env) {
	ctx := t.Context()
	e.addNode(t, "https://a.example")
	var current, all []int64
	for i := range 7 {
		a := account()
		u := e.signIn(t, a, signIn(7, "aa", 5))
		all = append(all, u.UID)
		if i%3 == 0 {
			u = e.signIn(t, a, signIn(8, "bb", 8))
			all = append(all, u.UID)
		}
		current = append(current, u.UID)
	}
	for _, replaced := range []bool{false, true} {
		want := current
		if replaced {
			want = all
		}
		for _, limit := range []int{1, 3, 100} {
			var got []int64
			for after := int64(0); len(got) <= len(want); {
				page, err := e.Store.ListUsers(ctx, after, limit, replaced)
				must(t, err)
				if len(page) == 0 {
					break
				}
				if len(page) > limit || page[0].Node != "https://a.example" {
					t.Fatalf("a page of %d: %+v", limit, page)
				}
				got = append(got, uids(page, ofUser)...)
				after = got[len(got)-1]
			}
			if !slices.Equal(got, want) {
				t.Errorf("replaced %v, pages of %d: %v, want %v", replaced, limit, got, want)
			}
		}
	}
}

func testFindUsers(t *testing.T, e env) {
	ctx := t.Context()
	e.addNode(t, "https://a.example")
	for _, id := range []string{"abc0", "abcf", "abd0", "ab00", "0abc", "abc9"} {
		a := ts.Account{FxAUID: id + strings.Repeat("7", 28), Domain: "zz.example"}
		e.signIn(t, a, signIn(7, "aa", 5))
		if id == "abc9" {
			e.signIn(t, a, signIn(8, "bb", 8))
		}
	}
	e.signIn(t, ts.Account{FxAUID: "abcx", Domain: "zz.example"}, signIn(7, "aa", 5))
	after := ts.Account{FxAUID: "abc0" + strings.Repeat("7", 28), Domain: "zz.example"}.Email()
	for prefix, want := range map[string]string{
		"abc": "abc0 abc9 abcf", "abc9777": "abc9", "ab": "ab00 abc0", "1": "", "ab after": "abc9 abcf", "abd after": "abd0", "0abc after": "",
	} {
		limit, begin := 100, ""
		if strings.HasPrefix(prefix, "ab") && !strings.HasPrefix(prefix, "abc") {
			limit = 2
		}
		prefix, isAfter := strings.CutSuffix(prefix, " after")
		if isAfter {
			begin = after
		}
		users, err := e.Store.FindUsers(ctx, prefix, begin, limit)
		must(t, err)
		var got []string
		for i := range users {
			got = append(got, users[i].Email[:4])
			if users[i].Node != "https://a.example" || users[i].ReplacedAt != 0 {
				t.Errorf("%s: %+v", prefix, users[i])
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", prefix, got, want)
		}
	}
	for _, prefix := range []string{"", "ABC", "abc%", "user", strings.Repeat("a", 32)} {
		if _, err := e.Store.FindUsers(ctx, prefix, "", 10); !errcode.Is(err, errcode.Invalid) {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}

func testDue(t *testing.T, e env) {
	ctx, day := t.Context(), int64(24*time.Hour/time.Millisecond)
	e.addNode(t, "https://a.example")
	e.addNode(t, "https://down.example")
	e.exec(t, `UPDATE nodes SET downed = 1 WHERE node = 'https://down.example'`)
	now := t0.UnixMilli()
	on := func(node string, u ts.User) ts.User { u.Node = node; return u }
	a, b := account(), account()
	old := e.insert(t, a, on("https://a.example", at(row(6, "aa", 5), now-30*day, now-20*day)))
	same := e.insert(t, a, on("https://a.example", at(row(7, "bb", 7), now-20*day, now-10*day)))
	e.insert(t, a, on("https://a.example", at(row(7, "bb", 7), now-10*day, 0)))
	e.insert(t, b, on("https://down.example", at(row(6, "aa", 5), now-30*day, now-25*day)))
	gone := e.insert(t, b, on("", at(row(7, "bb", 5), now-25*day, now-22*day)))
	edge := e.insert(t, b, on("https://a.example", at(row(8, "cc", 8), now-22*day, now-7*day)))

	due := func(before int64) []ts.DueUser {
		t.Helper()
		all, err := e.Store.Due(ctx, until(time.UnixMilli(before)), ts.DueUser{}, 10)
		must(t, err)
		return all
	}
	got := due(now - 7*day)
	if want := []int64{gone, old, same}; !slices.Equal(uids(got, ofDue), want) {
		t.Fatalf("due are %v, want %v", uids(got, ofDue), want)
	}
	if got[0].Node != "" || got[1].Node != "https://a.example" || got[1].Email != a.Email() || got[1].ReplacedAt != now-20*day {
		t.Errorf("due are %+v", got)
	}
	if got[0].KeysLive || got[1].KeysLive || !got[2].KeysLive {
		t.Errorf("keys that live: %+v", got)
	}
	if all := due(now - 7*day + 1); len(all) != 4 || all[3].UID != edge {
		t.Errorf("a millisecond later %v are due", uids(all, ofDue))
	}
}

func testDuePages(t *testing.T, e env) {
	ctx := t.Context()
	e.addNode(t, caseNode)
	a := account()
	var want []int64
	for i := range int64(7) {
		want = append(want, e.insert(t, a, at(row(i+1, "aa", 5), 1000+i, 2000+i/3)))
	}
	for _, limit := range []int{1, 2, 3, 100} {
		var got []int64
		for after := (ts.DueUser{}); len(got) <= len(want); {
			page, err := e.Store.Due(ctx, until(t0), after, limit)
			must(t, err)
			if len(page) == 0 {
				break
			}
			got = append(got, uids(page, ofDue)...)
			after = page[len(page)-1]
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: %v, want %v", limit, got, want)
		}
	}
}

func testForget(t *testing.T, e env) {
	ctx, a := t.Context(), account()
	e.addNode(t, "https://a.example")
	old := e.signIn(t, a, signIn(7, "aa", 5))
	u := e.signIn(t, a, signIn(8, "bb", 8))
	for range 2 {
		must(t, e.Store.Forget(ctx, old.UID))
		must(t, e.Store.Forget(ctx, u.UID))
	}
	if got := e.users(t, a); len(got) != 1 || got[0] != u {
		t.Errorf("the rows are %+v", got)
	}
}

func testAccess(t *testing.T, e env) {
	ctx, a := t.Context(), account()
	closed := closed(signIn(7, "aa", 5))
	set := func(access ts.Access) {
		t.Helper()
		must(t, e.Store.SetAccess(ctx, a, ts.Rule{Access: access, Note: "a friend's"}, t0))
		st, err := e.Store.AccountState(ctx, a)
		if err != nil || st.Access != access {
			t.Errorf("state %+v, %v; want %s", st, err, access)
		}
	}
	refused := func(in ts.SignIn) {
		t.Helper()
		_, err := e.Store.SignIn(ctx, a, in)
		suite.WantCode(t, "SignIn", err, errcode.Denied)
	}
	refused(closed)
	set(ts.Allowed)
	u := e.signIn(t, a, closed)
	set(ts.Denied)
	refused(signIn(7, "aa", 5))
	set(ts.Unlisted)
	if got := e.signIn(t, a, closed); got.UID != u.UID {
		t.Errorf("signed in as %+v", got)
	}
	e.exec(t, `INSERT INTO account_access (fxa_uid, access, note, created_at) VALUES ('%s', 'nonsense', '', 1)`, a.FxAUID)
	refused(signIn(7, "aa", 5))
}

func testAccessOfBadNotes(t *testing.T, e env) {
	for _, note := range []string{"a\x00b", "\xff", strings.Repeat("a", ts.MaxNote+1)} {
		err := e.Store.SetAccess(t.Context(), account(), ts.Rule{Access: ts.Allowed, Note: note}, t0)
		suite.WantCode(t, "SetAccess", err, errcode.Invalid)
	}
}

func testListAccess(t *testing.T, e env) {
	ctx := t.Context()
	var want []ts.Rule
	for i, id := range []string{"A", "a", "b", "c", "d"} {
		r := ts.Rule{FxAUID: id, Access: ts.Allowed, Note: strings.Repeat("ü", i), CreatedAt: t0.UnixMilli() + int64(i)}
		if i%2 == 1 {
			r.Access = ts.Denied
		}
		a := ts.Account{FxAUID: id, Domain: "accounts.example"}
		must(t, e.Store.SetAccess(ctx, a, ts.Rule{Access: ts.Denied, Note: "overwritten"}, t0))
		must(t, e.Store.SetAccess(ctx, a, r, time.UnixMilli(r.CreatedAt)))
		want = append(want, r)
	}
	for _, limit := range []int{1, 2, 100} {
		var got []ts.Rule
		for after := ""; len(got) <= len(want); after = got[len(got)-1].FxAUID {
			page, err := e.Store.ListAccess(ctx, after, limit)
			must(t, err)
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: %+v, want %+v", limit, got, want)
		}
	}
}

func testRefused(t *testing.T, e env) {
	ctx := t.Context()
	e.addNode(t, "https://a.example")
	try := func(a ts.Account, at int64) {
		t.Helper()
		in := closed(signIn(7, "aa", 5))
		in.Now = time.UnixMilli(at)
		_, err := e.Store.SignIn(ctx, a, in)
		suite.WantCode(t, "SignIn", err, errcode.Denied)
	}
	list := func(want ...ts.Refused) {
		t.Helper()
		if got, err := e.Store.Refused(ctx, 10); err != nil || !slices.Equal(got, want) {
			t.Errorf("refused are %+v, %v; want %+v", got, err, want)
		}
	}
	a, b := account(), account()
	list()
	try(a, 1000)
	try(b, 2000)
	try(a, 3000)
	listA := ts.Refused{FxAUID: a.FxAUID, FirstAt: 1000, LastAt: 3000, Attempts: 2}
	listB := ts.Refused{FxAUID: b.FxAUID, FirstAt: 2000, LastAt: 2000, Attempts: 1}
	list(listA, listB)
	if got, err := e.Store.Refused(ctx, 1); err != nil || len(got) != 1 || got[0] != listA {
		t.Errorf("the last one is %+v, %v", got, err)
	}
	must(t, e.Store.SetAccess(ctx, a, ts.Rule{Access: ts.Allowed}, t0))
	list(listB)
	must(t, e.Store.SetAccess(ctx, b, ts.Rule{Access: ts.Denied}, t0))
	try(b, 4000)
	list()
	e.signIn(t, a, signIn(7, "aa", 5))
	if _, err := e.Store.SignIn(ctx, a, signIn(6, "aa", 5)); !errcode.Is(err, errcode.Denied) {
		t.Errorf("an old generation: %v", err)
	}
	list()
}

func testFindAccounts(t *testing.T, e env) {
	ctx := t.Context()
	e.addNode(t, "https://a.example")
	named := func(id string) ts.Account { return ts.Account{FxAUID: id, Domain: "accounts.example"} }
	id := func(first string) string { return first + strings.Repeat("0", 32-len(first)) }
	e.signIn(t, named(id("abc1")), signIn(7, "aa", 5))
	e.signIn(t, named(id("abc1")), signIn(8, "bb", 8)) // two rows of an account
	_, err := e.Store.Replace(ctx, named(id("abc1")), t0, false)
	must(t, err)
	e.refuse(t, named(id("abc2")))
	must(t, e.Store.SetAccess(ctx, named(id("abc3")), ts.Rule{Access: ts.Denied}, t0))
	e.setLabel(t, named(id("abc4")), ts.Label{Text: "anna"})
	// In all tables.
	e.refuse(t, named(id("abc0")))
	e.setLabel(t, named(id("abc0")), ts.Label{Text: "bert"})
	e.signIn(t, named(id("abc0")), signIn(7, "aa", 5))
	e.exec(t, `INSERT INTO account_access (fxa_uid, access, note, created_at) VALUES ('%s', 'allow', '', 1)`, id("abc0"))
	for _, other := range []string{"abd0", "abb0", "ab", "ABC5"} {
		must(t, e.Store.SetAccess(ctx, named(id(other)), ts.Rule{Access: ts.Allowed}, t0))
	}
	all := []string{id("abc0"), id("abc1"), id("abc2"), id("abc3"), id("abc4")}
	for prefix, want := range map[string][]string{"abc": all, "abc1": all[1:2], id("abc3")[:31]: all[3:4], "abc5": nil} {
		for limit := 0; limit <= len(want)+1; limit++ {
			got, err := e.Store.FindAccounts(ctx, prefix, limit)
			if err != nil || !slices.Equal(got, want[:min(limit, len(want))]) {
				t.Errorf("%d of %s: %q, %v; want %q", limit, prefix, got, err, want)
			}
		}
	}
	for _, prefix := range []string{"", "x", "ABC", "abc%", id("abc1")} {
		_, err := e.Store.FindAccounts(ctx, prefix, 10)
		suite.WantCode(t, prefix, err, errcode.Invalid)
	}
}

func testRefusedIsBounded(t *testing.T, e env) {
	ctx := t.Context()
	var values []string
	for i := range ts.MaxRefused {
		values = append(values, fmt.Sprintf("('old%04d', 1, %d, 1)", i, 1000+i))
	}
	e.exec(t, `INSERT INTO refused_sign_ins (fxa_uid, first_at, last_at, attempts) VALUES %s`, strings.Join(values, ", "))
	for i := range 3 {
		in := closed(signIn(7, "aa", 5))
		in.Now = t0
		_, err := e.Store.SignIn(ctx, ts.Account{FxAUID: fmt.Sprintf("new%d", i), Domain: "x"}, in)
		suite.WantCode(t, "SignIn", err, errcode.Denied)
	}
	got, err := e.Store.Refused(ctx, 2*ts.MaxRefused)
	must(t, err)
	if len(got) != ts.MaxRefused || got[0].FxAUID != "new0" || got[2].FxAUID != "new2" || got[len(got)-1].FxAUID != "old0003" {
		t.Errorf("%d are kept, from %+v to %+v", len(got), got[:3], got[len(got)-1])
	}
}

func until(t time.Time) ts.Deadlines { return ts.Deadlines{Replaced: t, Deleted: t} }
