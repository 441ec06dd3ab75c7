package storetest

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	ts "holdfast/internal/tokenserver"
)

func testRandomSignIns(t *testing.T, e env) {
	rapid.Check(t, func(rt *rapid.T) {
		l := &life{env: e, t: t, rt: rt, a: account(), seen: map[int64]bool{}, left: map[string]bool{}}
		rt.Repeat(map[string]func(*rapid.T){
			"":               l.check,
			"sign in":        l.signIn,
			"sign in again":  l.signIn, // more often than the rest
			"follow on":      l.followOn,
			"replace":        func(*rapid.T) { l.change(l.Store.Replace(t.Context(), l.a, t0, false)) },
			"delete":         l.delete,
			"lose a node":    func(*rapid.T) { l.exec(t, `UPDATE users SET nodeid = 987654321 WHERE email = '%s'`, l.a.Email()) },
			"another's row":  l.insertBeside,
			"password":       l.changePassword,
			"clock set back": func(*rapid.T) { l.now -= 500 },
		})
	})
}

type life struct {
	env
	t    *testing.T
	rt   *rapid.T
	a    ts.Account
	now  int64
	last ts.User
	seen map[int64]bool
	left map[string]bool
}

func (l *life) change(_ int, err error) {
	if err != nil {
		l.rt.Fatal(err)
	}
}

func (l *life) delete(rt *rapid.T) {
	if _, err := l.Store.Delete(l.t.Context(), l.a, t0); err != nil {
		rt.Fatal(err)
	}
	clear(l.left)
}

func (l *life) check(rt *rapid.T) {
	if got := l.unreplaced(l.t, l.a); len(got) > 2 {
		rt.Fatalf("rows that are not replaced: %+v", got)
	}
}

func (l *life) signIn(rt *rapid.T) {
	l.now += rapid.Int64Range(0, 3).Draw(rt, "ms")
	l.try(rt, signIn(
		rapid.Int64Range(0, 12).Draw(rt, "generation"),
		rapid.SampledFrom([]string{"", "aa", "bb", "cc", "dd"}).Draw(rt, "state"),
		rapid.Int64Range(0, 12).Draw(rt, "keys"),
	))
}

func (l *life) followOn(rt *rapid.T) {
	next := max(l.last.Generation, l.last.KeysChangedAt.Value) + 1
	l.try(rt, signIn(next, rapid.SampledFrom([]string{"aa", "bb", "cc", "dd", "ee", "ff"}).Draw(rt, "state"), next))
}

func (l *life) try(rt *rapid.T, in ts.SignIn) {
	in.Now = t0.Add(time.Duration(l.now) * time.Millisecond)
	before, err := l.Store.AccountState(l.t.Context(), l.a)
	if err != nil {
		rt.Fatal(err)
	}
	plan, refusal := ts.Decide(before, in)
	u, err := l.Store.SignIn(l.t.Context(), l.a, in)
	after := l.users(l.t, l.a)
	if refusal != nil {
		if !sameRefusal(err, refusal) || !reflect.DeepEqual(after, before.Users) {
			rt.Fatalf("got %v, want %v; the rows are\n%+v, were\n%+v", err, refusal, after, before.Users)
		}
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	l.letIn(rt, in, plan, before.Users, after, u)
}

func (l *life) letIn(rt *rapid.T, in ts.SignIn, plan ts.Plan, before, after []ts.User, u ts.User) {
	isNew := !slices.ContainsFunc(before, func(b ts.User) bool { return b.UID == u.UID })
	live := slices.DeleteFunc(slices.Clone(after), func(u ts.User) bool { return u.Replaced })
	switch {
	case len(live) != 1 || live[0] != u:
		rt.Fatalf("let in as %+v, the rows are %+v", u, after)
	case u.ClientState != in.Keys.ClientState || in.Generation.Known && u.Generation != in.Generation.Value:
		rt.Fatalf("let in with %+v as %+v", in, u)
	case len(before) < ts.MaxUsers && l.left[u.ClientState]:
		rt.Fatalf("stale keys %q were let in", u.ClientState)
	case isNew != (plan.Op == ts.Insert) || isNew && l.seen[u.UID]:
		rt.Fatalf("user %d is new: %v; %+v", u.UID, isNew, plan)
	case len(before) > 0 && u.Generation < slices.MaxFunc(before, func(a, b ts.User) int { return int(a.Generation - b.Generation) }).Generation:
		rt.Fatalf("the generation sank to %d from %+v", u.Generation, before)
	}
	for _, b := range before {
		if b.ClientState != u.ClientState && !b.IsDeleted() {
			l.left[b.ClientState] = true
		}
	}
	l.seen[u.UID], l.last = true, u
}

func sameRefusal(got, want error) bool {
	var g, w *ts.Refusal
	return errors.As(got, &g) && errors.As(want, &w) && reflect.DeepEqual(g, w)
}

func (l *life) insertBeside(*rapid.T) {
	if got := l.unreplaced(l.t, l.a); len(got) == 1 {
		u := got[0]
		u.CreatedAt++
		l.seen[l.insert(l.t, l.a, u)] = true
	}
}

func (l *life) changePassword(rt *rapid.T) {
	l.change(l.Store.ChangePassword(l.t.Context(), l.a, rapid.Int64Range(0, 12).Draw(rt, "generation")))
}
