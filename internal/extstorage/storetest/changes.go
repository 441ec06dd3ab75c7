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
		{"SkippedRevisions", skippedRevisions},
		{"SkippedInstalls", skippedInstalls},
		{"SkippedVersions", skippedVersions},
		{"VersionsUsedUp", versionsUsedUp},
	}
}

func (u *user) feed(since ext.Seq, limit int) ext.Feed {
	u.t.Helper()
	f, err := u.h.Store.Changes(u.t.Context(), u.owner, since, limit)
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
		f, err := u.h.Store.Changes(u.t.Context(), u.owner, seen, 5)
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
		_, err := u.h.Store.Changes(t.Context(), u.owner, since, 10)
		wantError(t, fmt.Sprint("changes since ", since), err, ext.ErrChangesGone)
	}
	equal(t, "changes since the gap", len(u.feed(skipped+2, 10).Changes), 1)
	u.audited()
}

// skippedRevisions writes after a restore what the lost server may have written, too. No revision and no change number
// of the lost server may match the new contents.
func skippedRevisions(t *testing.T, u *user) {
	u.h = u.h.Faulty(t, func(string) error { return nil })
	u.apply(put("s", "a", `1`), put("s", "a", `2`), put("s", "gone", `1`), expiring("s", "expired", `1`, u.now+second), restored(put("s", "big", `1`), 900, t0, t0))
	const skipped = 1_000_000
	for range 2 { // the database may be restored again
		u.now += minute
		floor := u.do(put("s", "last", `1`)).Seq + skipped
		must(t, "SkipChanges", u.h.Store.SkipChanges(t.Context(), skipped))
		u.apply(del("s", "gone"))
		before := u.get("s", "a").Revision
		_, err := u.try(guarded(put("s", "a", `9`), ifRevision(before+1)))
		wantError(t, "the lost server's revision before a write", err, item(0, &ext.MismatchError{Current: before}))
		a := u.do(guarded(put("s", "a", `4`), ifRevision(before)))
		equal(t, "revision of an old record", a.Revision, before+ext.Revision(floor)+1)
		_, err = u.try(guarded(put("s", "a", `9`), ifRevision(before+1)))
		wantError(t, "the lost server's revision", err, item(0, &ext.MismatchError{Current: a.Revision}))
		equal(t, "the next revision", u.do(put("s", "a", `5`)).Revision, a.Revision+1)
		for _, key := range []string{"new", "gone", "expired"} {
			equal(t, "revision of a new record "+key, u.do(put("s", key, `1`)).Revision, ext.Revision(floor)+1)
		}
		w := u.apply(put("s", "twice", `1`), put("s", "twice", `2`), put("s", "gone", `3`), del("s", "twice"), del("s", "new"), del("s", "expired"))
		equal(t, "revisions in one request", []ext.Revision{w.Items[0].Revision, w.Items[1].Revision, w.Items[2].Revision},
			[]ext.Revision{ext.Revision(floor) + 1, ext.Revision(floor) + 2, ext.Revision(floor) + 2})
	}
	u.audited()
}

// skippedInstalls restores a database without an install that the lost server had. Its numbers do not begin at 1 again.
func skippedInstalls(t *testing.T, u *user) {
	u.h = u.h.Faulty(t, func(string) error { return nil })
	const skipped = 1_000_000
	must(t, "SkipChanges", u.h.Store.SkipChanges(t.Context(), skipped))
	// The service refuses a number above the last.
	if feed, err := u.h.Store.Changes(t.Context(), u.owner, 5, 10); err == nil && feed.Last >= 5 {
		t.Errorf("changes since a lost number: the last is %d: expected a lower number, or an error", feed.Last)
	}
	first := u.do(put("s", "a", `1`))
	equal(t, "the first number and revision", []int64{int64(first.Seq), int64(first.Revision)}, []int64{skipped + 1, skipped + 1})
	_, err := u.h.Store.Changes(t.Context(), u.owner, 5, 10)
	wantError(t, "changes since a lost number", err, ext.ErrChangesGone)
	_, err = u.try(guarded(put("s", "a", `2`), ifRevision(1)))
	wantError(t, "a lost revision", err, item(0, &ext.MismatchError{Current: first.Revision}))

	schema := u.other()
	schema.register("s", `{}`)
	equal(t, "the first number after a schema", schema.do(put("s", "a", `1`)).Seq, ext.Seq(skipped+1))
	closed := u.other()
	closed.close()
	for closed.deleteSome(10).FinishedAt == 0 {
	}
	_, err = u.h.Deletions.Reopen(t.Context(), closed.owner, u.now)
	must(t, "Reopen", err)
	equal(t, "the first number after a deletion", closed.do(put("s", "a", `1`)).Seq, ext.Seq(skipped+2))
}

// skippedVersions registers schemas after a restore. No version of the lost server may get another document, whether the
// backup has the namespace, the install or neither. Versions of the backup stay, although the numbers have a gap.
func skippedVersions(t *testing.T, u *user) {
	u.h = u.h.Faulty(t, func(string) error { return nil })
	const skipped = 1_000_000_000
	gap := ext.SchemaVersion(ext.SkippedVersions(skipped))
	for range 3 {
		u.register("more", `{}`)
	}
	u.register("s", `{"title":"old"}`)
	u.register("s", `{}`)
	u.activate("s", 1)
	for range 7 {
		u.register("dropped", `{}`)
	}
	_, err := u.h.Registry.DropSchemas(t.Context(), u.owner, "dropped", 0, u.now)
	must(t, "DropSchemas", err)
	equal(t, "the next version in a database that was not restored", u.register("s", `{}`).Version, ext.SchemaVersion(3))
	written, closed := u.other(), u.other()
	written.apply(put("s", "a", `1`))
	greatest := ext.SchemaVersion(7)
	for restores := ext.SchemaVersion(1); restores <= 2; restores++ { // the database may be restored again
		kept := u.schemas("s")
		must(t, "SkipChanges", u.h.Store.SkipChanges(t.Context(), skipped))
		greatest += gap
		for _, ns := range []ext.Namespace{"s", "more", "dropped", ext.Namespace(fmt.Sprint("new-", restores))} {
			equal(t, fmt.Sprint("the next version of ", ns), u.register(ns, `{}`).Version, greatest+1)
			equal(t, fmt.Sprint("the one after it of ", ns), u.register(ns, `{}`).Version, greatest+2)
		}
		greatest += 2
		equal(t, "the versions of the backup", u.schemas("s")[2:], kept)
		equal(t, "the active version", u.active("s").Version, ext.SchemaVersion(1))
		equal(t, "an import of a version of the backup", u.restoreSchema(elsewhere("more", restores, ext.Deprecated, `{}`)), true)
		equal(t, "an import of a version that the backup lacks", u.restoreSchema(elsewhere("more", 3+restores, ext.Draft, `{}`)), true)
		equal(t, "the versions of the install without schemas", written.register("s", `{}`).Version, restores*gap+restores)
		equal(t, "the versions of an install that the backup lacks", u.other().register("s", `{}`).Version, restores*gap+1)
	}
	closed.close()
	for closed.deleteSome(10).FinishedAt == 0 {
	}
	_, err = u.h.Deletions.Reopen(t.Context(), closed.owner, u.now)
	must(t, "Reopen", err)
	equal(t, "the versions of an install that was deleted", closed.register("s", `{}`).Version, 2*gap+1)
	u.audited()
}

// versionsUsedUp restores databases until no version is left.
func versionsUsedUp(t *testing.T, u *user) {
	u.h = u.h.Faulty(t, func(string) error { return nil })
	last := elsewhere("last", ext.MaxSchemaVersion, ext.Draft, `{}`)
	equal(t, "an import of the last version", u.restoreSchema(last), true)
	equal(t, "the versions", u.schemas("last"), []ext.Schema{last})
	register := func(v *user, ns ext.Namespace) error {
		_, err := v.h.Registry.Register(t.Context(), v.owner, ext.Schema{Namespace: ns, Document: []byte(`{}`), CreatedAt: v.now}, v.quota)
		return err
	}
	wantError(t, "a version after the last", register(u, "last"), ext.ErrNoVersionLeft)
	equal(t, "another namespace's version", u.register("s", `{}`).Version, ext.SchemaVersion(1))
	v := u.other()
	v.register("s", `{}`)
	for range 3 {
		must(t, "SkipChanges", u.h.Store.SkipChanges(t.Context(), 1_000_000_000*ext.ChangesPerVersion))
	}
	for what, of := range map[string]*user{"the install with the last version": u, "another install": v, "a new install": u.other()} {
		for _, ns := range []ext.Namespace{"s", "new"} {
			wantError(t, "a version of "+what, register(of, ns), ext.ErrNoVersionLeft)
		}
		of.do(put("t", "a", `1`))
	}
}
