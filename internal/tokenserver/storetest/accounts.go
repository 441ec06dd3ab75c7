package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/suite"
	ts "holdfast/internal/tokenserver"
)

func testAccountIsNamed(t *testing.T, e env) {
	ctx := t.Context()
	long := ts.Account{FxAUID: fmt.Sprintf("%0250d", 1), Domain: "accounts.example"}
	for _, a := range []ts.Account{{}, {FxAUID: "alice"}, {Domain: "accounts.example"}, {FxAUID: "a\x00b", Domain: "x"}, long} {
		_, err := e.Store.SignIn(ctx, a, signIn(7, "aa", 5))
		suite.WantCode(t, "SignIn", err, errcode.Denied)
		_, err = e.Store.AccountState(ctx, a)
		suite.WantCode(t, "AccountState", err, errcode.Denied)
		_, err = e.Store.Replace(ctx, a, t0, true)
		suite.WantCode(t, "Replace", err, errcode.Denied)
		_, err = e.Store.ChangePassword(ctx, a, 7)
		suite.WantCode(t, "ChangePassword", err, errcode.Denied)
		suite.WantCode(t, "SetAccess", e.Store.SetAccess(ctx, a, ts.Rule{Access: ts.Allowed}, t0), errcode.Denied)
	}
	longest := ts.Account{FxAUID: fmt.Sprintf("%0238d", time.Now().UnixNano()), Domain: "accounts.example"}
	if u := e.signIn(t, longest, signIn(7, "aa", 5)); u.Account() != longest {
		t.Errorf("signed in as %+v", u)
	}
}

func testUnknownAccount(t *testing.T, e env) {
	ctx, a := t.Context(), account()
	st, err := e.Store.AccountState(ctx, a)
	if err != nil || len(st.Users) != 0 || st.Access != ts.Unlisted {
		t.Errorf("state %+v, %v", st, err)
	}
	if n, err := e.Store.Replace(ctx, a, t0, true); n != 0 || err != nil {
		t.Errorf("replaced %d, %v", n, err)
	}
	if n, err := e.Store.ChangePassword(ctx, a, 7); n != 0 || err != nil {
		t.Errorf("lifted %d, %v", n, err)
	}
	must(t, e.Store.SetAccess(ctx, a, ts.Rule{Access: ts.Unlisted}, t0))
	must(t, e.Store.Forget(ctx, 1<<60))
}

func testFirstSignIn(t *testing.T, e env) {
	a := account()
	u := e.signIn(t, a, signIn(7, "aa", 5))
	want := ts.User{
		UID: u.UID, Email: a.Email(), Generation: 7, ClientState: "aa", CreatedAt: caseNow,
		NodeID: u.NodeID, KeysChangedAt: ts.At(5), Node: caseNode,
	}
	if u != want || u.UID <= 0 || u.NodeID <= 0 {
		t.Errorf("signed in as %+v", u)
	}
	if got := e.users(t, a); len(got) != 1 || got[0] != want {
		t.Errorf("the rows are %+v", got)
	}
}

func testIsolation(t *testing.T, e env) {
	ctx, a := t.Context(), account()
	other := ts.Account{FxAUID: a.FxAUID, Domain: "elsewhere.example"}
	mine, theirs := e.signIn(t, a, signIn(7, "aa", 5)), e.signIn(t, other, signIn(7, "aa", 5))
	if mine.UID == theirs.UID {
		t.Fatal("two accounts are one storage user")
	}
	e.signIn(t, a, signIn(8, "bb", 8))
	_, err := e.Store.ChangePassword(ctx, a, 100)
	must(t, err)
	_, err = e.Store.Replace(ctx, a, t0, true)
	must(t, err)
	if got := e.users(t, other); len(got) != 1 || got[0] != theirs {
		t.Errorf("the other account's rows are %+v", got)
	}
}

func testSameKeysSameUser(t *testing.T, e env) {
	a := account()
	first := e.signIn(t, a, signIn(7, "aa", 5))
	for i, in := range []ts.SignIn{signIn(7, "aa", 5), signIn(0, "aa", 5), signIn(8, "aa", 5), signIn(9, "aa", 9), signIn(0, "aa", 20)} {
		if u := e.signIn(t, a, in); u.UID != first.UID || u.CreatedAt != first.CreatedAt {
			t.Errorf("sign-in %d as %+v", i, u)
		}
	}
	if got := e.unreplaced(t, a); len(got) != 1 || got[0].Generation != 20 || got[0].KeysChangedAt != ts.At(20) {
		t.Errorf("the row is %+v", got)
	}
	second := e.signIn(t, a, signIn(21, "bb", 21))
	if second.UID == first.UID || second.NodeID != first.NodeID {
		t.Errorf("new keys: %+v after %+v", second, first)
	}
	e.signIn(t, a, signIn(30, "bb", 21))
	if got := e.users(t, a); len(got) != 2 || got[0].Generation != 30 || got[1].Generation != 20 || got[1].KeysChangedAt != ts.At(20) {
		t.Errorf("what is replaced changes no more: %+v", got)
	}
}

func testNewestTwentyCount(t *testing.T, e env) {
	a := account()
	for i := range int64(ts.MaxUsers + 1) {
		e.insert(t, a, at(row(i+1, fmt.Sprintf("%02x", i), i+1), 1000+i, 1001+i))
	}
	if got := e.users(t, a); len(got) != ts.MaxUsers || got[0].ClientState != "14" || got[ts.MaxUsers-1].ClientState != "01" {
		t.Errorf("%d rows: %+v", len(got), got)
	}
	var refusal *ts.Refusal
	if _, err := e.Store.SignIn(t.Context(), a, signIn(50, "01", 50)); !errors.As(err, &refusal) || refusal.Detail != "stale value" {
		t.Errorf("the oldest that counts: %v", err)
	}
	e.signIn(t, a, signIn(50, "00", 50))
}

func testUIDsNeverComeAgain(t *testing.T, e env) {
	seen := map[int64]bool{}
	for range 5 {
		a := account()
		u := e.signIn(t, a, signIn(7, "aa", 5))
		if seen[u.UID] {
			t.Fatalf("uid %d came again", u.UID)
		}
		seen[u.UID] = true
		e.exec(t, `DELETE FROM users WHERE uid = %d`, u.UID)
	}
}

func testSkipUIDs(t *testing.T, e env) {
	const skipped = 5000
	first := e.signIn(t, account(), signIn(7, "aa", 5))
	must(t, e.Store.SkipUIDs(t.Context(), skipped))
	if next := e.signIn(t, account(), signIn(7, "aa", 5)); next.UID <= first.UID+skipped {
		t.Errorf("after %d, %d was assigned: expected to skip %d", first.UID, next.UID, skipped)
	}
}

func testReplace(t *testing.T, e env) {
	ctx, a := t.Context(), account()
	first := e.signIn(t, a, signIn(7, "aa", 5))
	if n, err := e.Store.Replace(ctx, a, t0, false); n != 1 || err != nil {
		t.Fatalf("replaced %d, %v", n, err)
	}
	if n, err := e.Store.Replace(ctx, a, t0.Add(time.Hour), false); n != 0 || err != nil {
		t.Errorf("replaced %d again, %v", n, err)
	}
	if got := e.users(t, a); len(got) != 1 || got[0].ReplacedAt != t0.UnixMilli() || got[0].Generation != 7 {
		t.Errorf("the rows are %+v", got)
	}
	if back := e.signIn(t, a, signIn(7, "aa", 5)); back.UID == first.UID {
		t.Error("came back as the same storage user")
	}
}

func testRetire(t *testing.T, e env) {
	ctx, a := t.Context(), account()
	u := e.signIn(t, a, signIn(7, "aa", 5))
	if n, err := e.Store.Replace(ctx, a, t0, true); n != 1 || err != nil {
		t.Fatalf("retired %d, %v", n, err)
	}
	if got := e.users(t, a); len(got) != 1 || got[0].Generation != ts.Retired || got[0].ReplacedAt != t0.UnixMilli() {
		t.Errorf("the rows are %+v", got)
	}
	for _, in := range []ts.SignIn{signIn(7, "aa", 5), signIn(1<<62, "bb", 1<<62), signIn(0, "aa", 5)} {
		var refusal *ts.Refusal
		if _, err := e.Store.SignIn(ctx, a, in); !errors.As(err, &refusal) || refusal.Reason != ts.BadGeneration {
			t.Errorf("a retired account: %v", err)
		}
	}
	must(t, e.Store.Forget(ctx, u.UID))
	if again := e.signIn(t, a, signIn(7, "aa", 5)); again.UID == u.UID {
		t.Error("the storage user came again")
	}
}

func testChangePassword(t *testing.T, e env) {
	ctx, a := t.Context(), account()
	e.signIn(t, a, signIn(7, "aa", 5))
	old := e.signIn(t, a, signIn(8, "bb", 8))
	if n, err := e.Store.ChangePassword(ctx, a, 100); n != 1 || err != nil {
		t.Errorf("lifted %d, %v", n, err)
	}
	for _, g := range []int64{100, 99} {
		if n, err := e.Store.ChangePassword(ctx, a, g); n != 0 || err != nil {
			t.Errorf("lifted %d to %d, %v", n, g, err)
		}
	}
	got := e.users(t, a)
	if len(got) != 2 || got[0].Generation != 100 || got[1].Generation != 7 {
		t.Errorf("the rows are %+v", got)
	}
	var refusal *ts.Refusal
	if _, err := e.Store.SignIn(ctx, a, signIn(99, "bb", 8)); !errors.As(err, &refusal) || refusal.Reason != ts.BadGeneration {
		t.Errorf("a token from before the change: %v", err)
	}
	if u := e.signIn(t, a, signIn(101, "bb", 8)); u.UID != old.UID {
		t.Errorf("after the change: %+v", u)
	}
}

func testForeignWrites(t *testing.T, e env) {
	ctx, a := t.Context(), account()
	u := e.signIn(t, a, signIn(7, "aa", 5))
	again := func() ts.User { t.Helper(); return e.signIn(t, a, signIn(7, "aa", 5)) }

	e.exec(t, `UPDATE users SET generation = 9 WHERE uid = %d`, u.UID)
	var refusal *ts.Refusal
	if _, err := e.Store.SignIn(ctx, a, signIn(7, "aa", 5)); !errors.As(err, &refusal) || refusal.Reason != ts.BadGeneration {
		t.Errorf("a generation that another process lifted: %v", err)
	}
	e.exec(t, `UPDATE users SET generation = 7 WHERE uid = %d`, u.UID)
	if got := again(); got.UID != u.UID {
		t.Errorf("signed in as %+v", got)
	}
	e.exec(t, `UPDATE users SET replaced_at = 5000 WHERE uid = %d`, u.UID)
	moved := again()
	if moved.UID == u.UID || moved.Replaced {
		t.Errorf("after it was replaced: %+v", moved)
	}
	newer := e.insert(t, a, at(row(7, "aa", 5), moved.CreatedAt+5, 0))
	if got := again(); got.UID != newer {
		t.Errorf("signed in as %+v, want the newer row %d", got, newer)
	}
	if got := e.unreplaced(t, a); len(got) != 1 || got[0].UID != newer {
		t.Errorf("rows that are not replaced: %+v", got)
	}
	e.exec(t, `DELETE FROM users WHERE email = '%s'`, a.Email())
	if got := again(); got.UID <= newer {
		t.Errorf("after all rows were deleted: %+v", got)
	}
}

func testGenerationNeverSinks(t *testing.T, e env) {
	a := account()
	e.signIn(t, a, signIn(7, "aa", 5))
	e.signIn(t, a, signIn(9, "aa", 5))
	if u := e.signIn(t, a, signIn(0, "aa", 8)); u.Generation != 9 || u.KeysChangedAt != ts.At(8) {
		t.Errorf("signed in as %+v", u)
	}
}

func testCancelled(t *testing.T, e env) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := account()
	_, err := e.Store.SignIn(ctx, a, signIn(7, "aa", 5))
	suite.WantCode(t, "SignIn", err, errcode.Unavailable)
	if got := e.users(t, a); len(got) != 0 {
		t.Errorf("a cancelled sign-in has written %+v", got)
	}
}
