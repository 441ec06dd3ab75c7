package storetest

import (
	"fmt"
	"testing"

	ss "holdfast/internal/syncstorage"
)

func batchChecks() []check {
	return []check{
		{"Life", batchLife},
		{"EmptyBatch", emptyBatch},
		{"Totals", batchTotals},
		{"TotalsAreOfWhatIsHeld", batchHolds},
		{"TooLargeAtCommit", tooLargeAtCommit},
		{"TooLargeAtCreation", tooLargeAtCreation},
		{"TTLCountsFromTheCommit", batchTTL},
		{"Lifetime", batchLifetime},
		{"LifetimeOnASlowClock", batchSlowClock},
		{"RefusedCommit", refusedCommit},
		{"CommittedTwice", committedTwice},
		{"SideBySide", sideBySide},
		{"WriteMeanwhile", writeMeanwhile},
		{"EndsWithItsCollection", endsWithCollection},
		{"EndsWithItsUser", endsWithUser},
		{"Large", largeBatch},
	}
}

// batchLife checks that staged records stay invisible until the commit, which writes them with a single stamp.
func batchLife(t *testing.T, u *user) {
	u.post("bookmarks", bso("a", "old"), bso("b", "old"))
	before := u.state()
	u.wait(1e9)
	b := u.stage("bookmarks", bso("a", "new"))
	u.wait(1e9)
	u.append("bookmarks", b, bso("c", "new"))
	u.append("bookmarks", b)
	u.wantState("appends", before)
	u.wait(1e9)
	w := u.commit("bookmarks", b, bso("d", "new"))
	equal(t, "stamp", w.Modified, u.now)
	want := []record{
		{id: "b", payload: "old", modified: before.modified},
		{id: "a", payload: "new", modified: u.now},
		{id: "c", payload: "new", modified: u.now},
		{id: "d", payload: "new", modified: u.now},
	}
	p := u.list("bookmarks")
	equal(t, "records", fmt.Sprint(p.records), fmt.Sprint(want))
	equal(t, "collection", p.modified, u.now)
	u.state()
}

// emptyBatch checks that a commit without records creates or stamps the collection.
func emptyBatch(t *testing.T, u *user) {
	first := u.commit("bookmarks", u.stage("bookmarks"))
	equal(t, "Previous", first.Previous, 0)
	equal(t, "collection", u.list("bookmarks").modified, first.Modified)
	u.wait(1e9)
	w := u.commit("bookmarks", u.stage("bookmarks"))
	equal(t, "second commit", w, ss.Written{Modified: u.now, Previous: first.Modified})
	equal(t, "records", u.state().collections["bookmarks"].records, 0)
}

func batchTotals(t *testing.T, u *user) {
	for _, tc := range []struct {
		name   string
		limits ss.BatchLimits
		fits   []ss.Update
		excess []ss.Update
		then   []ss.Update
	}{
		{"records", ss.BatchLimits{Records: 3, Bytes: 100},
			[]ss.Update{bso("a", ""), bso("b", "")}, []ss.Update{bso("c", ""), bso("d", "")}, []ss.Update{bso("e", "")}},
		{"bytes", ss.BatchLimits{Records: 100, Bytes: 10},
			[]ss.Update{bso("a", "12345")}, []ss.Update{bso("c", ""), bso("d", "123456")}, []ss.Update{bso("e", "12345")}},
	} {
		u := u.other()
		w := u.write("bookmarks")
		b := newBatch()
		_, err := u.store.Append(t.Context(), u.owner, w, ss.BatchPart{ID: b, Opens: true, Updates: tc.fits, Limits: tc.limits})
		must(t, tc.name, err)
		_, err = u.store.Append(t.Context(), u.owner, w, ss.BatchPart{ID: b, Updates: tc.excess, Limits: tc.limits})
		wantError(t, tc.name, err, ss.ErrBatchTooLarge)
		_, err = u.store.Append(t.Context(), u.owner, w, ss.BatchPart{ID: b, Updates: tc.then, Limits: tc.limits})
		must(t, tc.name+" that fit exactly", err)
		_, err = u.store.Commit(t.Context(), u.owner, w, ss.BatchPart{ID: b, Limits: tc.limits})
		must(t, tc.name, err)
		for _, up := range tc.excess {
			equalIDs(t, tc.name+": refused records", u.query(ss.Query{Collection: "bookmarks", IDs: []string{up.ID}}))
		}
		equal(t, tc.name+": records", len(u.list("bookmarks").records), len(tc.fits)+len(tc.then))
	}
}

func batchHolds(t *testing.T, u *user) {
	l := ss.BatchLimits{Records: 2, Bytes: 10}
	w := u.write("bookmarks")
	b := newBatch()
	for i, us := range [][]ss.Update{
		{bso("a", "1234567890")},
		{bso("a", "123456789"), bso("b", "1")},
		{bso("a", "1"), {ID: "b", TTL: ss.Some[int64](100)}, {ID: "a", SortIndex: ss.Some[int64](1)}},
		{bso("b", "123456789")},
	} {
		_, err := u.store.Append(t.Context(), u.owner, w, ss.BatchPart{ID: b, Opens: i == 0, Updates: us, Limits: l})
		must(t, fmt.Sprintf("append %d", i), err)
	}
	_, err := u.store.Append(t.Context(), u.owner, w, ss.BatchPart{ID: b, Updates: []ss.Update{bso("a", "12")}, Limits: l})
	wantError(t, "a byte more", err, ss.ErrBatchTooLarge)
	_, err = u.store.Commit(t.Context(), u.owner, w, ss.BatchPart{ID: b, Updates: []ss.Update{bso("b", "12345678"), bso("a", "12")}, Limits: l})
	must(t, "Commit", err)
	equal(t, "a", u.get("bookmarks", "a").payload, "12")
	equal(t, "b", u.get("bookmarks", "b").payload, "12345678")
}

// tooLargeAtCommit checks that a commit's own records count against the batch's limits.
func tooLargeAtCommit(t *testing.T, u *user) {
	l := ss.BatchLimits{Records: 2, Bytes: 10}
	b := u.stage("bookmarks", bso("a", "x"), bso("b", "x"))
	for _, us := range [][]ss.Update{{bso("c", "")}, {bso("a", "1234567890")}} {
		_, err := u.store.Commit(t.Context(), u.owner, u.write("bookmarks"), ss.BatchPart{ID: b, Updates: us, Limits: l})
		wantError(t, "Commit", err, ss.ErrBatchTooLarge)
		u.wantState("a refused commit", state{})
	}
	_, err := u.store.Commit(t.Context(), u.owner, u.write("bookmarks"), ss.BatchPart{ID: b, Limits: l})
	must(t, "Commit", err)
	equal(t, "payload", u.get("bookmarks", "a").payload, "x")
	equalIDs(t, "records", u.list("bookmarks"), "a", "b")
}

// tooLargeAtCreation checks that a refused first append opens no batch.
func tooLargeAtCreation(t *testing.T, u *user) {
	b := newBatch()
	_, err := u.store.Append(t.Context(), u.owner, u.write("bookmarks"), ss.BatchPart{ID: b, Opens: true, Updates: []ss.Update{bso("a", "x"), bso("b", "x")}, Limits: ss.BatchLimits{Records: 1, Bytes: 10}})
	wantError(t, "Append", err, ss.ErrBatchTooLarge)
	_, err = u.store.Commit(t.Context(), u.owner, u.write("bookmarks"), ss.BatchPart{ID: b, Limits: limits()})
	wantError(t, "Commit", err, ss.ErrNoBatch)
	u.wantState("a refused batch", state{})
}

// batchTTL checks that TTLs start at the commit.
func batchTTL(t *testing.T, u *user) {
	b := u.stage("bookmarks", expiring("a", "x", 60), expiring("zero", "x", 0))
	u.wait(3600e9)
	w := u.commit("bookmarks", b, expiring("b", "x", 60))
	equal(t, "staged", u.get("bookmarks", "a").expiry, w.Modified+60*second)
	equal(t, "committed", u.get("bookmarks", "b").expiry, w.Modified+60*second)
	equalIDs(t, "records", u.list("bookmarks"), "a", "b")
}

// batchLifetime checks that a batch ends BatchLifetime after it was opened, however late its last append was.
func batchLifetime(t *testing.T, u *user) {
	for _, tc := range []struct {
		age  ss.Timestamp
		want error
	}{
		{2*hour - tick, nil},
		{2 * hour, ss.ErrNoBatch},
		{2*hour + tick, ss.ErrNoBatch},
		{48 * hour, ss.ErrNoBatch},
	} {
		u := u.other()
		one, two := u.stage("bookmarks", bso("a", "x")), u.stage("bookmarks", bso("a", "x"))
		u.now += hour
		u.append("bookmarks", one, bso("b", "x"))
		u.now += tc.age - hour
		_, err := u.store.Commit(t.Context(), u.owner, u.write("bookmarks"), ss.BatchPart{ID: one, Limits: limits()})
		wantError(t, fmt.Sprintf("Commit after %v", tc.age), err, tc.want)
		_, err = u.store.Append(t.Context(), u.owner, u.write("bookmarks"), ss.BatchPart{ID: two, Limits: limits()})
		wantError(t, fmt.Sprintf("Append after %v", tc.age), err, tc.want)
		if tc.want != nil {
			u.wantState("expired batches", state{})
		}
	}
}

func batchSlowClock(t *testing.T, u *user) {
	u.put("bookmarks", bso("a", "x"))
	u.now -= 24 * hour
	b := u.stage("bookmarks", bso("b", "x"))
	u.now += hour
	u.append("bookmarks", b, bso("c", "x"))
	equal(t, "stamp", u.commit("bookmarks", b).Modified, t0+tick)
	equalIDs(t, "records", u.list("bookmarks"), "a", "b", "c")
}

func refusedCommit(t *testing.T, u *user) {
	for _, tc := range []struct {
		name   string
		change func(u *user, w *ss.Write, l *ss.BatchLimits)
		want   error
	}{
		{"precondition", func(u *user, w *ss.Write, _ *ss.BatchLimits) { w.If = ifUnmodifiedSince(t0 - tick) }, &ss.PreconditionError{Modified: t0}},
		{"limits", func(_ *user, _ *ss.Write, l *ss.BatchLimits) { l.Records = 2 }, ss.ErrBatchTooLarge},
		{"quota", func(_ *user, w *ss.Write, _ *ss.BatchLimits) { w.Quota = ss.Quota{User: 10, Enforce: true} }, ss.ErrQuota},
	} {
		u := u.other()
		u.put("bookmarks", bso("old", "old"))
		b := u.stage("bookmarks", ss.Update{ID: "staged", SortIndex: ss.Some[int64](1), Payload: text("12345")}, bso("other", "x"))
		w, l := u.write("bookmarks"), limits()
		tc.change(u, &w, &l)
		before := u.state()
		for _, us := range [][]ss.Update{
			{bso("new", "xxxxx"), bso("old", "changed")},
			{{ID: "staged", SortIndex: ss.Some[int64](2), Payload: text("123456"), TTL: ss.Some[int64](1)}, bso("new", "x")},
		} {
			_, err := u.store.Commit(t.Context(), u.owner, w, ss.BatchPart{ID: b, Updates: us, Limits: l})
			wantError(t, tc.name, err, tc.want)
			u.wantState(tc.name, before)
		}
		u.append("bookmarks", b, bso("other", "y"))
		m := u.commit("bookmarks", b, bso("last", "z")).Modified
		equalIDs(t, tc.name+": records", u.list("bookmarks"), "old", "last", "other", "staged")
		equal(t, tc.name+": old", u.get("bookmarks", "old").payload, "old")
		equal(t, tc.name+": staged", u.get("bookmarks", "staged"), record{id: "staged", index: ss.Some[int64](1), payload: "12345", modified: m})
	}
}

// committedTwice checks that a commit ends the batch.
func committedTwice(t *testing.T, u *user) {
	b := u.stage("bookmarks", bso("a", "x"))
	u.commit("bookmarks", b)
	u.deleteBSO("bookmarks", "a")
	before := u.state()
	_, err := u.store.Commit(t.Context(), u.owner, u.write("bookmarks"), ss.BatchPart{ID: b, Updates: []ss.Update{bso("b", "x")}, Limits: limits()})
	wantError(t, "Commit", err, ss.ErrNoBatch)
	u.wantState("a second commit", before)
}

// sideBySide checks that batches do not see each other's records.
func sideBySide(t *testing.T, u *user) {
	one := u.stage("bookmarks", bso("a", "one"), bso("one", "x"))
	two := u.stage("bookmarks", bso("a", "two"), bso("two", "x"))
	elsewhere := u.stage("tabs", bso("a", "elsewhere"))
	u.append("bookmarks", one, bso("b", "one"))
	u.append("bookmarks", two, bso("b", "two"))
	u.commit("bookmarks", two)
	equalIDs(t, "after the first commit", u.list("bookmarks"), "a", "b", "two")
	u.commit("bookmarks", one)
	equalIDs(t, "after the second commit", u.list("bookmarks"), "two", "a", "b", "one")
	equal(t, "the later commit replaces the record", u.get("bookmarks", "b").payload, "one")
	u.commit("tabs", elsewhere)
	equal(t, "the other collection", u.get("tabs", "a").payload, "elsewhere")
}

// writeMeanwhile checks that a commit merges with records that were written after they were staged.
func writeMeanwhile(t *testing.T, u *user) {
	u.put("bookmarks", bso("a", "old"))
	b := u.stage("bookmarks", ss.Update{ID: "a", SortIndex: ss.Some[int64](7)}, ss.Update{ID: "b", SortIndex: ss.Some[int64](7)})
	u.put("bookmarks", bso("a", "meanwhile"))
	u.put("bookmarks", bso("b", "meanwhile"))
	u.put("bookmarks", bso("c", "meanwhile"))
	u.deleteBSO("bookmarks", "b")
	m := u.commit("bookmarks", b).Modified
	equal(t, "a", u.get("bookmarks", "a"), record{id: "a", index: ss.Some[int64](7), payload: "meanwhile", modified: m})
	equal(t, "b", u.get("bookmarks", "b"), record{id: "b", index: ss.Some[int64](7), modified: m})
	equal(t, "c", u.get("bookmarks", "c").payload, "meanwhile")
}

// endsWithCollection checks that deleting a collection ends its batches.
func endsWithCollection(t *testing.T, u *user) {
	u.put("bookmarks", bso("a", "x"))
	old := u.stage("bookmarks", bso("b", "x"))
	hidden := u.stage("tabs", bso("b", "x"))
	other := u.stage("forms", bso("b", "x"))
	u.deleteCollection("bookmarks")
	u.deleteCollection("tabs")
	before := u.state()
	for collection, b := range map[string]ss.BatchID{"bookmarks": old, "tabs": hidden} {
		_, err := u.store.Append(t.Context(), u.owner, u.write(collection), ss.BatchPart{ID: b, Updates: []ss.Update{bso("c", "x")}, Limits: limits()})
		wantError(t, "Append in "+collection, err, ss.ErrNoBatch)
		_, err = u.store.Commit(t.Context(), u.owner, u.write(collection), ss.BatchPart{ID: b, Limits: limits()})
		wantError(t, "Commit in "+collection, err, ss.ErrNoBatch)
	}
	u.wantState("requests with ended batches", before)
	u.commit("forms", other)
	u.put("bookmarks", bso("a", "x"))
	equalIDs(t, "records of the new collection", u.list("bookmarks"), "a")
}

// endsWithUser checks that deleting everything ends all batches.
func endsWithUser(t *testing.T, u *user) {
	u.put("bookmarks", bso("a", "x"))
	b, hidden := u.stage("bookmarks", bso("b", "x")), u.stage("tabs", bso("b", "x"))
	u.deleteAll()
	for collection, b := range map[string]ss.BatchID{"bookmarks": b, "tabs": hidden} {
		_, err := u.store.Commit(t.Context(), u.owner, u.write(collection), ss.BatchPart{ID: b, Limits: limits()})
		wantError(t, "Commit in "+collection, err, ss.ErrNoBatch)
	}
	u.wantState("DeleteAll", state{})
}

func largeBatch(t *testing.T, u *user) {
	records := 2000
	if bound := u.h.BatchRecords; bound > 0 {
		records = min(records, bound)
	}
	id := func(i int) string { return fmt.Sprintf("%012d", i) }
	var old []ss.Update
	for i := 0; i < records; i += 2 {
		old = append(old, ss.Update{ID: id(i), SortIndex: ss.Some(int64(i)), Payload: text("old"), TTL: ss.Some[int64](9999)})
	}
	u.post("history", old...)
	u.wait(1e9)
	b := u.stage("history")
	for i := 0; i < records; {
		var us []ss.Update
		for ; i < records && len(us) < 100; i++ {
			us = append(us, bso(id(i), fmt.Sprintf("payload %d", i)))
		}
		u.append("history", b, us...)
	}
	u.commit("history", b)
	p := u.list("history")
	equal(t, "records", len(p.records), records)
	for i, r := range p.records {
		want := record{id: id(i), payload: fmt.Sprintf("payload %d", i), modified: u.now}
		if i%2 == 0 {
			want.index = ss.Some(int64(i))
		}
		if r != want {
			t.Fatalf("record %d is %v, want %v", i, r, want)
		}
	}
	u.state()
}
