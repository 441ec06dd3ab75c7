package storetest

import (
	"bytes"
	"testing"

	ss "holdfast/internal/syncstorage"
)

func transferChecks() []check {
	return []check{
		{"RoundTrip", transferRoundTrip},
		{"OfNobody", transferOfNobody},
		{"OneSnapshot", transferOneSnapshot},
		{"GivenUp", transferGivenUp},
		{"LaterStays", transferLaterStays},
		{"OverTheExpired", transferOverTheExpired},
		{"AgainChangesNothing", transferAgain},
		{"BesideAWriter", transferBesideAWriter},
		{"UnderAQuota", transferUnderAQuota},
		{"TooManyNames", transferTooManyNames},
		{"BesideABatch", transferBesideABatch},
		{"ManyRecords", transferManyRecords},
	}
}

type dump []ss.Restore

func (u *user) export() (names []string, d dump) {
	u.t.Helper()
	for e, err := range u.store.Export(u.t.Context(), u.owner, u.now) {
		must(u.t, "Export", err)
		if e.BSO == nil {
			names, d = append(names, e.Collection.Name), append(d, ss.Restore{Modified: e.Collection.Modified})
			continue
		}
		if e.Collection.Name != names[len(names)-1] {
			u.t.Fatalf("a record of %s comes after %s", e.Collection.Name, names[len(names)-1])
		}
		b := *e.BSO
		b.Payload = bytes.Clone(b.Payload)
		last := &d[len(d)-1]
		if n := len(last.Records); n > 0 && last.Records[n-1].ID >= b.ID {
			u.t.Errorf("%q comes after %q", b.ID, last.Records[n-1].ID)
		}
		last.Records = append(last.Records, b)
	}
	return names, d
}

func (u *user) restore(w ss.Write, r ss.Restore) ss.Restored {
	u.t.Helper()
	restored, err := u.store.Restore(u.t.Context(), u.owner, w, r)
	must(u.t, "Restore", err)
	return restored
}

func records(r ss.Restore) (all []record) {
	for i := range r.Records {
		all = append(all, recordOf(&r.Records[i]))
	}
	return all
}

func at(id, payload string, modified ss.Timestamp) ss.BSO {
	return ss.BSO{ID: id, Payload: []byte(payload), Modified: modified}
}

func transferRoundTrip(t *testing.T, u *user) {
	name := newName()
	u.put("bookmarks", ss.Update{ID: "..", SortIndex: ss.Some[int64](-7), Payload: text("ż\x00'\"\\\n")})
	u.put("bookmarks", expiring("mortal", "dies", 1000))
	u.put("bookmarks", bso("empty", ""))
	u.put("tabs", expiring("expired", "x", 1))
	u.put("meta", bso("global", "{}"))
	u.put(name, bso("~ ", "last"))
	u.deleteBSO("meta", "global")
	u.wait(5e9)
	names, exported := u.export()
	before := u.state()
	expires := u.get("bookmarks", "mortal").expiry

	v := u.other()
	for i, r := range exported {
		restored := v.restore(v.write(names[i]), r)
		equal(t, "the stamp of "+names[i], restored.Modified, r.Modified)
		equal(t, "newer records", restored.Newer, 0)
	}
	v.wantState("restoring all", before)
	equal(t, "expiry", v.get("bookmarks", "mortal").expiry, expires)
	equal(t, "expiry of one that never expires", v.get("bookmarks", "empty").expiry, 0)
	_, again := v.export()
	for i := range again {
		equal(t, "the stamp of "+names[i], again[i].Modified, exported[i].Modified)
		equal(t, "the records of "+names[i], records(again[i]), records(exported[i]))
	}
	v.now = t0 - hour
	equal(t, "the stamp of the next write", v.put("forms", bso("a", "x")).Modified, before.modified+tick)
}

func transferOfNobody(t *testing.T, u *user) {
	names, _ := u.export()
	equal(t, "collections of a user without data", len(names), 0)
	u.stage("bookmarks", bso("a", "x"))
	names, _ = u.export()
	equal(t, "collections of a batch", len(names), 0)
}

func transferOneSnapshot(t *testing.T, u *user) {
	u.put("bookmarks", bso("a", "old"))
	u.put("tabs", bso("a", "old"))
	var records int
	for e, err := range u.store.Export(t.Context(), u.owner, u.now) {
		must(t, "Export", err)
		if e.BSO == nil {
			continue
		}
		if records++; records == 1 {
			u.wait(1e9)
			u.post("tabs", bso("a", "new"), bso("b", "new"))
			u.put("forms", bso("a", "new"))
		}
		equal(t, "payload", string(e.BSO.Payload), "old")
	}
	equal(t, "records", records, 2)
}

func transferGivenUp(t *testing.T, u *user) {
	for i := range 5 {
		u.put("bookmarks", bso(string(rune('a'+i)), xs(1000)))
	}
	for range 30 {
		for _, err := range u.store.Export(t.Context(), u.owner, u.now) {
			must(t, "Export", err)
			break
		}
	}
	names, _ := u.export()
	equal(t, "collections", names, []string{"bookmarks"})
}

func transferLaterStays(t *testing.T, u *user) {
	first := u.put("bookmarks", bso("later", "here")).Modified
	u.wait(1e9)
	second := u.put("bookmarks", bso("same", "here")).Modified
	restored := u.restore(u.write("bookmarks"), ss.Restore{Modified: first, Records: []ss.BSO{
		at("later", "there", first-tick), at("same", "as before", first), at("new", "x", first-tick),
	}})
	equal(t, "newer records", restored.Newer, 2)
	equal(t, "stamp", restored.Modified, second)
	equal(t, "the user's stamp", restored.User, second)
	u.restore(u.write("bookmarks"), ss.Restore{Modified: second, Records: []ss.BSO{at("same", "replaced", second)}})
	equal(t, "the record with the same stamp", u.get("bookmarks", "same").payload, "replaced")
	equal(t, "the record with a later stamp", u.get("bookmarks", "later").payload, "here")
	equal(t, "the new record", u.get("bookmarks", "new").modified, first-tick)
	u.wantUsage("Restore", "bookmarks", 3, 13)
}

func transferOverTheExpired(t *testing.T, u *user) {
	u.put("bookmarks", expiring("a", "12345", 10))
	u.wait(60e9)
	restored := u.restore(u.write("bookmarks"), ss.Restore{Modified: t0 - hour, Records: []ss.BSO{at("a", "xy", t0-hour)}})
	equal(t, "newer records", restored.Newer, 0)
	equal(t, "the record", u.get("bookmarks", "a"), record{id: "a", payload: "xy", modified: t0 - hour})
	u.wantUsage("Restore", "bookmarks", 1, 2)
}

func transferAgain(t *testing.T, u *user) {
	r := ss.Restore{Modified: t0 - hour, Records: []ss.BSO{at("a", "xy", t0-2*hour), at("b", "", t0-hour)}}
	u.restore(u.write("bookmarks"), r)
	before := u.state()
	restored := u.restore(u.write("bookmarks"), r)
	u.wantState("the same again", before)
	equal(t, "the user's stamp", restored.User, t0-hour)
	u.restore(u.write("bookmarks"), ss.Restore{Modified: t0 - hour})
	u.wantState("no record at all", before)
}

func transferBesideAWriter(t *testing.T, u *user) {
	r := ss.Restore{Modified: t0 - hour, Records: []ss.BSO{at("a", "xy", t0-hour)}}
	last := u.restore(u.writeIf("bookmarks", ifUnmodifiedSince(0)), r).User
	last = u.restore(u.writeIf("forms", ifUnmodifiedSince(last)), r).User
	stamp := u.put("tabs", bso("a", "x")).Modified
	before := u.state()
	_, err := u.store.Restore(t.Context(), u.owner, u.writeIf("bookmarks", ifUnmodifiedSince(last)), ss.Restore{
		Modified: t0 - hour, Records: []ss.BSO{at("b", "xy", t0-hour)},
	})
	wantError(t, "with a concurrent writer", err, &ss.PreconditionError{Modified: stamp})
	u.wantState("a restore that was refused", before)
}

func transferUnderAQuota(t *testing.T, u *user) {
	u.put("tabs", bso("a", xs(50)))
	u.setQuota(ss.Some[int64](60))
	before := u.state()
	_, err := u.store.Restore(t.Context(), u.owner, u.counted("bookmarks", 1000), ss.Restore{
		Modified: t0 - hour, Records: []ss.BSO{at("a", xs(11), t0-hour)},
	})
	wantError(t, "a byte too much", err, ss.ErrQuota)
	u.wantState("a restore over the quota", before)
	restored := u.restore(u.counted("bookmarks", 1000), ss.Restore{Modified: t0 - hour, Records: []ss.BSO{at("a", xs(10), t0-hour)}})
	equal(t, "Used", restored.Used, ss.Used{Collection: 10, User: 60})
	equal(t, "the quota that held", restored.Quota.User, 60)
}

func transferTooManyNames(t *testing.T, u *user) {
	w := u.write(newName())
	w.MaxNames = 0
	_, err := u.store.Restore(t.Context(), u.owner, w, ss.Restore{Modified: t0})
	wantError(t, "a name too many", err, ss.ErrTooManyNames)
	u.wantState("a name too many", state{collections: map[string]collectionState{}})
}

func transferBesideABatch(t *testing.T, u *user) {
	b := u.stage("bookmarks", bso("a", "staged"))
	u.restore(u.write("bookmarks"), ss.Restore{Modified: t0 - hour, Records: []ss.BSO{at("a", "restored", t0-hour)}})
	equal(t, "before the commit", u.get("bookmarks", "a").payload, "restored")
	u.commit("bookmarks", b)
	equal(t, "after it", u.get("bookmarks", "a").payload, "staged")
	u.wantUsage("the commit", "bookmarks", 1, 6)
}

func transferManyRecords(t *testing.T, u *user) {
	var all []ss.BSO
	for i := range 100 {
		all = append(all, at(string([]rune{'a' + rune(i/26), 'a' + rune(i%26)}), xs(int64(i)), t0-hour))
	}
	u.restore(u.write("bookmarks"), ss.Restore{Modified: t0 - hour, Records: all})
	_, exported := u.export()
	equal(t, "records", records(exported[0]), records(ss.Restore{Records: all}))
	u.wantUsage("Restore", "bookmarks", 100, 4950)
}
