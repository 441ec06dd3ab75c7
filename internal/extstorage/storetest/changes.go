package storetest

import (
	"errors"
	"fmt"
	"testing"

	ext "holdfast/internal/extstorage"
	"holdfast/internal/testdb"
)

func changeChecks() []check {
	return []check{
		{"Numbers", changeNumbers},
		{"Pages", changePages},
		{"Behind", changesBehind},
		{"WhileWritten", changesWhileWritten},
		{"NothingForNothing", nothingForNothing},
	}
}

func (u *user) feed(since ext.Seq, limit int) ext.Feed {
	u.t.Helper()
	f, err := u.h.Store.Changes(u.t.Context(), u.owner, since, limit, u.now)
	must(u.t, "Changes", err)
	return f
}

// changeNumbers: put, delete and expire, with the revision that each was of.
func changeNumbers(t *testing.T, u *user) {
	at := u.now
	u.apply(put("s", "a", `1`))
	u.apply(put("s", "a", `2`))
	u.apply(expiring("t", "é", `1`, at+minute))
	u.now += second
	u.apply(del("s", "a"))
	u.now += hour
	u.apply(del("t", "é"))
	u.apply(expiring("s", "b", `1`, u.now+1))
	u.now++
	u.apply(del("s", "b"))
	want := []ext.Change{
		{Seq: 1, Op: ext.ChangePut, Namespace: "s", Key: "a", Revision: 1, At: at},
		{Seq: 2, Op: ext.ChangePut, Namespace: "s", Key: "a", Revision: 2, At: at},
		{Seq: 3, Op: ext.ChangePut, Namespace: "t", Key: "é", Revision: 1, At: at},
		{Seq: 4, Op: ext.ChangeDelete, Namespace: "s", Key: "a", Revision: 2, At: at + second},
		{Seq: 5, Op: ext.ChangeExpire, Namespace: "t", Key: "é", Revision: 1, At: at + second + hour},
		{Seq: 6, Op: ext.ChangePut, Namespace: "s", Key: "b", Revision: 1, At: at + second + hour},
		{Seq: 7, Op: ext.ChangeExpire, Namespace: "s", Key: "b", Revision: 1, At: at + second + hour + 1},
	}
	equal(t, "feed", u.feed(0, 100), ext.Feed{Changes: want, Last: 7})
	for since := range ext.Seq(7) {
		equal(t, fmt.Sprint("since ", since), u.feed(since, 100), ext.Feed{Changes: want[since:], Last: 7})
	}
}

func changePages(t *testing.T, u *user) {
	u.fill("s", numbered(30)...)
	var got []ext.Change
	for len(got) < 30 {
		f := u.feed(ext.Seq(len(got)), 7)
		equal(t, "page", len(f.Changes), min(7, 30-len(got)))
		equal(t, "last", f.Last, ext.Seq(30))
		got = append(got, f.Changes...)
	}
	equal(t, "pages", got, u.changes(0))
}

// changesBehind: a question from the end on, or from behind it, has no answer
// yet, and neither has one of an install that has nothing.
func changesBehind(t *testing.T, u *user) {
	equal(t, "a new install", u.feed(0, 10), ext.Feed{})
	equal(t, "a new install, from behind", u.feed(5, 10), ext.Feed{})
	u.apply(put("s", "a", `1`))
	equal(t, "from the end", u.feed(1, 10), ext.Feed{Last: 1})
	equal(t, "from behind it", u.feed(99, 10), ext.Feed{Last: 1})
}

// changesWhileWritten: a reader who goes on from what it has seen sees every
// number in its order, though many write at once.
func changesWhileWritten(t *testing.T, u *user) {
	const each = 10
	stop := make(chan struct{})
	read := make(chan error)
	for range 3 {
		go func() {
			seen, err := u.follow(stop)
			if err == nil && seen != parallel*each*2 {
				err = fmt.Errorf("%d changes in the end", seen)
			}
			read <- err
		}()
	}
	errs := testdb.Together(parallel, func(i int) error {
		for j := range each {
			if _, err := u.try(put("s", fmt.Sprint(i), `1`), put("s", fmt.Sprint(j), `2`)); err != nil {
				return err
			}
		}
		return nil
	})
	close(stop)
	must(t, "writers", errors.Join(errs...))
	for range 3 {
		must(t, "readers", <-read)
	}
}

// follow reads the feed until there is nothing more after stop.
func (u *user) follow(stop <-chan struct{}) (seen ext.Seq, err error) {
	for stopped := false; ; {
		f, err := u.h.Store.Changes(u.t.Context(), u.owner, seen, 5, u.now)
		if err != nil {
			return seen, err
		}
		for _, c := range f.Changes {
			if seen++; c.Seq != seen {
				return seen, fmt.Errorf("change %d at the place of %d", c.Seq, seen)
			}
		}
		switch {
		case f.Last < seen:
			return seen, fmt.Errorf("the last is %d and %d was seen", f.Last, seen)
		case stopped && len(f.Changes) == 0:
			return seen, nil
		}
		select {
		case <-stop:
			stopped = true
		default:
		}
	}
}

// nothingForNothing: what changes nothing takes no number.
func nothingForNothing(t *testing.T, u *user) {
	u.apply(put("s", "a", `1`))
	u.apply(del("s", "b"), look("s", "a"))
	_, err := u.try(guarded(put("s", "a", `1`), ifRevision(7)))
	wantError(t, "a precondition", err, item(0, &ext.MismatchError{Current: 1}))
	equal(t, "the next", u.do(put("s", "a", `2`)).Seq, ext.Seq(2))
}
