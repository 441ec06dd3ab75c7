package storetest

import (
	"errors"
	"fmt"
	"testing"

	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/testdb"
)

func idempotencyChecks() []check {
	return []check{
		{"Replay", idempotencyReplay},
		{"OtherRequest", idempotencyOther},
		{"RefusedIsNotKept", idempotencyRefused},
		{"OfOneInstall", idempotencyOfOneInstall},
		{"Until", idempotencyUntil},
		{"AtTheSameTime", idempotencyTogether},
	}
}

func (u *user) applyOnce(key string, request byte, ops ...ext.Op) (ext.Applied, error) {
	w := u.write(ops...)
	w.IdempotencyKey = &ext.IdempotencyKey{Key: key, Request: [32]byte{0, request, 31: request}}
	return u.h.Store.Apply(u.t.Context(), u.owner, w)
}

func idempotencyReplay(t *testing.T, u *user) {
	u.apply(put("s", "b", `1`), put("s", "c", `1`))
	ops := []ext.Op{expiring("s", "a", `1`, u.now+hour), put("s", "b", `2`), del("s", "c"), del("s", "none"), look("s", "b"), guarded(put("s", "d", `1`), ifRevision(0))}
	first, err := u.applyOnce("key", 1, ops...)
	must(t, "Apply", err)
	equal(t, "replayed", first.Replayed, false)
	u.now += minute
	u.apply(put("s", "a", `3`), del("s", "d"))
	before, events := u.state(), u.events()
	first.Replayed = true
	for range 2 {
		again, err := u.applyOnce("key", 1, ops...)
		must(t, "Apply again", err)
		equal(t, "the answer again", again, first)
	}
	u.wantState("the repeated request", before)
	equal(t, "events", u.events(), events)

	empty, err := u.applyOnce("empty", 1)
	must(t, "Apply of nothing", err)
	again, err := u.applyOnce("empty", 1)
	must(t, "Apply of nothing again", err)
	equal(t, "items of nothing", []int{len(empty.Items), len(again.Items)}, []int{0, 0})
	equal(t, "replayed", again.Replayed, true)
}

func idempotencyOther(t *testing.T, u *user) {
	_, err := u.applyOnce("key", 1, put("s", "a", `1`))
	must(t, "Apply", err)
	before := u.state()
	_, err = u.applyOnce("key", 2, put("s", "a", `2`))
	wantError(t, "another request", err, ext.ErrKeyReused)
	wantCode(t, "its code", err, errcode.Conflict)
	u.wantState("another request", before)
	_, err = u.applyOnce("Key", 2, put("s", "a", `2`))
	must(t, "another key", err)
	equal(t, "revision", u.get("s", "a").Revision, ext.Revision(2))
}

func idempotencyRefused(t *testing.T, u *user) {
	op := guarded(put("s", "a", `2`), ifRevision(1))
	_, err := u.applyOnce("key", 1, op)
	wantError(t, "a precondition", err, item(0, &ext.MismatchError{}))
	u.apply(put("s", "a", `1`))
	a, err := u.applyOnce("key", 1, op)
	must(t, "Apply", err)
	equal(t, "done now", []any{a.Replayed, a.Items[0].Revision}, []any{false, ext.Revision(2)})
}

func idempotencyOfOneInstall(t *testing.T, u *user) {
	v := u.other()
	v.owner.Tenant = u.owner.Tenant
	for i, w := range []*user{u, v, u.other()} {
		a, err := w.applyOnce("key", byte(i), put("s", "a", `1`))
		must(t, "Apply", err)
		equal(t, "replayed", a.Replayed, false)
	}
}

func idempotencyUntil(t *testing.T, u *user) {
	end := u.now + ext.Moment(ext.AnswersKept.Milliseconds())
	_, err := u.applyOnce("key", 1, put("s", "a", `1`))
	must(t, "Apply", err)
	u.now = end - 1
	a, err := u.applyOnce("key", 1, put("s", "a", `1`))
	must(t, "Apply", err)
	equal(t, "replayed", a.Replayed, true)
	_, err = u.applyOnce("key", 2, put("s", "a", `2`))
	wantError(t, "another request", err, ext.ErrKeyReused)
	u.now = end
	a, err = u.applyOnce("key", 2, put("s", "a", `2`))
	must(t, "Apply", err)
	equal(t, "replayed", a.Replayed, false)
	u.now = end + end - t0 - 1
	a, err = u.applyOnce("key", 2, put("s", "a", `2`))
	must(t, "Apply", err)
	equal(t, "the new answer", []any{a.Replayed, a.Items[0].Revision}, []any{true, ext.Revision(2)})
}

func idempotencyTogether(t *testing.T, u *user) {
	for round := range 5 {
		answers := make([]ext.Applied, parallel)
		errs := testdb.Concurrently(parallel, func(i int) (err error) {
			answers[i], err = u.applyOnce(fmt.Sprint(round), 1, put("s", "a", `1`), put("s", fmt.Sprint(round), `1`))
			return err
		})
		must(t, "Apply", errors.Join(errs...))
		done := 0
		for _, a := range answers {
			if !a.Replayed {
				done++
			}
			a.Replayed = answers[0].Replayed
			equal(t, "answer", a, answers[0])
		}
		equal(t, "done", done, 1)
	}
	equal(t, "revision", u.get("s", "a").Revision, ext.Revision(5))
}
