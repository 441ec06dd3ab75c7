package storetest

import (
	"errors"
	"fmt"
	"testing"

	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/suite"
	"holdfast/internal/testdb"
)

func preconditionChecks() []check {
	return []check{
		{"EarlierLifeOfADeletedKey", earlierLifeDeleted},
		{"EarlierLifeOfAnExpiredKey", earlierLifeExpired},
		{"RevisionMayMeetAnotherLife", revisionAgain},
		{"CreateOnly", createOnly},
		{"OneWins", oneWins},
		{"OneDeletes", oneDeletes},
		{"RefusedWriteLeavesNothing", refusedWrite},
	}
}

func earlierLifeDeleted(t *testing.T, u *user) {
	first := u.do(put("settings", "a", `1`))
	u.apply(del("settings", "a"))
	again := u.do(put("settings", "a", `2`))
	equal(t, "revision of a new life", again.Revision, ext.Revision(1))
	wantOtherLife(t, u, first, again)
}

func earlierLifeExpired(t *testing.T, u *user) {
	first := u.do(expiring("settings", "a", `1`, u.now+minute))
	u.now += minute
	again := u.do(put("settings", "a", `2`))
	equal(t, "revision of a new life", again.Revision, ext.Revision(1))
	equal(t, "made at", again.CreatedAt, u.now)
	wantOtherLife(t, u, first, again)
}

func wantOtherLife(t *testing.T, u *user, first, again ext.Item) {
	t.Helper()
	if first.Seq == again.Seq {
		t.Errorf("two lives have the tag %d", first.Seq)
	}
	for _, op := range []ext.Op{put("settings", "a", `3`), del("settings", "a"), look("settings", "a")} {
		_, err := u.try(guarded(op, ifMatch(first.Seq)))
		wantError(t, "the tag of an earlier life", err, item(0, &ext.MismatchError{Current: 1, Header: true}))
	}
	u.apply(guarded(put("settings", "a", `3`), ifMatch(again.Seq)))
}

func revisionAgain(t *testing.T, u *user) {
	u.apply(put("settings", "a", `1`))
	u.apply(del("settings", "a"))
	_, err := u.try(guarded(put("settings", "a", `2`), ifRevision(1)))
	wantError(t, "between two lives", err, item(0, &ext.MismatchError{}))
	u.apply(put("settings", "a", `2`))
	equal(t, "revision", u.do(guarded(put("settings", "a", `3`), ifRevision(1))).Revision, ext.Revision(2))
}

func isMismatch(err error) bool {
	var m *ext.MismatchError
	return errors.As(err, &m)
}

func createOnly(t *testing.T, u *user) {
	for name, prepare := range map[string]func(u *user){
		"in a new install":   func(*user) {},
		"beside another":     func(u *user) { u.apply(put("settings", "b", `1`)) },
		"where one expired":  func(u *user) { u.apply(expiring("settings", "a", `1`, u.now+minute)) },
		"where one was once": func(u *user) { u.apply(put("settings", "a", `1`)); u.apply(del("settings", "a")) },
	} {
		for _, g := range []ext.Precondition{ifRevision(0), ifNone} {
			u := u.other()
			prepare(u)
			u.now += minute
			errs := testdb.Concurrently(parallel, func(i int) error {
				_, err := u.try(guarded(put("settings", "a", fmt.Sprint(i)), g))
				return err
			})
			equal(t, name+": winners", suite.Winners(t, errs, isMismatch), 1)
			equal(t, name+": revision", u.get("settings", "a").Revision, ext.Revision(1))
			u.state()
		}
	}
}

func oneWins(t *testing.T, u *user) {
	for round := range 5 {
		seen := u.do(put("settings", "a", fmt.Sprint(round)))
		g := ifRevision(seen.Revision)
		if round%2 == 1 {
			g = ifMatch(seen.Seq)
		}
		errs := testdb.Concurrently(parallel, func(i int) error {
			_, err := u.try(guarded(put("settings", "a", fmt.Sprint(i)), g))
			return err
		})
		equal(t, "winners", suite.Winners(t, errs, isMismatch), 1)
		equal(t, "revision", u.get("settings", "a").Revision, seen.Revision+1)
	}
}

func oneDeletes(t *testing.T, u *user) {
	for range 5 {
		seen := u.do(put("settings", "a", `1`))
		errs := testdb.Concurrently(parallel, func(int) error {
			_, err := u.try(guarded(del("settings", "a"), ifMatch(seen.Seq)))
			return err
		})
		equal(t, "winners", suite.Winners(t, errs, isMismatch), 1)
		u.wantGone("settings", "a")
	}
	equal(t, "counters", u.audited(), ext.Counters{})
}

func refusedWrite(t *testing.T, u *user) {
	u.apply(put("settings", "a", `1`))
	before, events := u.state(), u.events()
	u.now += minute
	_, err := u.try(put("settings", "b", `1`), put("other", "c", `1`), guarded(del("settings", "a"), ifRevision(2)))
	wantError(t, "a precondition at the end", err, item(2, &ext.MismatchError{Current: 1}))
	wantCode(t, "its code", err, errcode.Conflict)
	u.wantState("a refused write", before)
	equal(t, "events", u.events(), events)
	equal(t, "the next change", u.do(put("settings", "a", `2`)).Seq, before.last+1)
}
