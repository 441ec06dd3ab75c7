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
		{"Skipped", skippedChanges},
	}
}

func (u *user) feed(since ext.Seq, limit int) ext.Feed {
	u.t.Helper()
	f, err := u.h.Store.Changes(u.t.Context(), u.owner, since, limit, u.now)
	must(u.t, "Changes", err)
	return f
}

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

func changesBehind(t *testing.T, u *user) {
	equal(t, "a new install", u.feed(0, 10), ext.Feed{})
	equal(t, "a new install, from a greater number", u.feed(5, 10), ext.Feed{})
	u.apply(put("s", "a", `1`))
	equal(t, "from the end", u.feed(1, 10), ext.Feed{Last: 1})
	equal(t, "from a greater number", u.feed(99, 10), ext.Feed{Last: 1})
}

func changesWhileWritten(t *testing.T, u *user) {
	const each = 10
	stop := make(chan struct{})
	read := make(chan error)
	for range 3 {
		go func() {
			seen, err := u.follow(stop)
			if err == nil && seen != parallel*each*2 {
				err = fmt.Errorf("%d changes at the end", seen)
			}
			read <- err
		}()
	}
	errs := testdb.Concurrently(parallel, func(i int) error {
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

func (u *user) follow(stop <-chan struct{}) (seen ext.Seq, err error) {
	for stopped := false; ; {
		f, err := u.h.Store.Changes(u.t.Context(), u.owner, seen, 5, u.now)
		if err != nil {
			return seen, err
		}
		for _, c := range f.Changes {
			if seen++; c.Seq != seen {
				return seen, fmt.Errorf("change %d, want %d", c.Seq, seen)
			}
		}
		switch {
		case f.Last < seen:
			return seen, fmt.Errorf("the last change is %d, want %d", f.Last, seen)
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

func nothingForNothing(t *testing.T, u *user) {
	u.apply(put("s", "a", `1`))
	u.apply(del("s", "b"), look("s", "a"))
	_, err := u.try(guarded(put("s", "a", `1`), ifRevision(7)))
	wantError(t, "a precondition", err, item(0, &ext.MismatchError{Current: 1}))
	equal(t, "the next", u.do(put("s", "a", `2`)).Seq, ext.Seq(2))
}

func skippedChanges(t *testing.T, u *user) {
	u.h = u.h.Faulty(t, func(string) error { return nil }) // own database: SkipChanges affects all installs
	u.apply(put("s", "a", `1`), put("s", "b", `1`))
	const skipped = 1_000_000
	must(t, "SkipChanges", u.h.Store.SkipChanges(t.Context(), skipped))
	equal(t, "the next number", u.do(put("s", "c", `1`)).Seq, ext.Seq(skipped+3))
	for _, since := range []ext.Seq{2, 3, skipped + 1} {
		_, err := u.h.Store.Changes(t.Context(), u.owner, since, 10, u.now)
		wantError(t, fmt.Sprint("changes since ", since), err, ext.ErrChangesGone)
	}
	equal(t, "changes since the gap", len(u.feed(skipped+2, 10).Changes), 1)
	u.audited()
}
