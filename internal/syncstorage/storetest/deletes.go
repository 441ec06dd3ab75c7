package storetest

import (
	"testing"

	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
)

func deleteChecks() []check {
	return []check{
		{"BSO", deleteOne},
		{"BSOs", deleteSome},
		{"Collection", deleteWhole},
		{"All", deleteEverything},
		{"Expired", deleteExpired},
	}
}

func deleteOne(t *testing.T, u *user) {
	u.post("bookmarks", bso("a", "x"), bso("b", "x"))
	u.wait(1e9)
	equal(t, "stamp", u.deleteBSO("bookmarks", "a").Modified, u.now)
	_, err := u.store.Get(t.Context(), u.owner, ss.Request{Collection: "bookmarks", Now: u.now}, "a")
	wantCode(t, "Get", err, errcode.NotFound)
	_, err = u.store.DeleteBSO(t.Context(), u.owner, u.write("bookmarks"), "a")
	wantCode(t, "DeleteBSO again", err, errcode.NotFound)
	p := u.list("bookmarks")
	equalIDs(t, "records", p, "b")
	equal(t, "collection", p.modified, u.now)
	equal(t, "the stamp of the remaining record", p.records[0].modified, t0)
	u.state()
	written := u.put("bookmarks", ss.Update{ID: "a"})
	equal(t, "written again", u.get("bookmarks", "a"), record{id: "a", modified: written.Modified})
}

func deleteSome(t *testing.T, u *user) {
	u.post("bookmarks", bso("a", "x"), bso("b", "x"), bso("c", "x"), bso("d", "x"))
	u.put("tabs", bso("a", "x"))
	u.wait(1e9)
	equal(t, "stamp", u.deleteBSOs("bookmarks", "a", "absent", "c", "a").Modified, u.now)
	equalIDs(t, "records", u.list("bookmarks"), "b", "d")
	equalIDs(t, "the other collection", u.list("tabs"), "a")
	u.wait(1e9)
	equal(t, "stamp without a match", u.deleteBSOs("bookmarks", "absent").Modified, u.now)
	u.wait(1e9)
	equal(t, "stamp without IDs", u.deleteBSOs("bookmarks").Modified, u.now)
	u.deleteBSOs("bookmarks", "b", "d")
	equal(t, "records", u.state().collections["bookmarks"].records, 0)
}

func deleteWhole(t *testing.T, u *user) {
	u.post("bookmarks", bso("a", "x"), bso("b", "x"))
	u.put("tabs", bso("a", "x"))
	before := u.state()
	u.wait(1e9)
	w := u.deleteCollection("bookmarks")
	equal(t, "stamp", w.Modified, u.now)
	delete(before.collections, "bookmarks")
	before.modified = u.now
	u.wantState("DeleteCollection", before)
	equal(t, "a second time", u.deleteCollection("bookmarks"), ss.Written{Modified: w.Modified})
	u.wantState("DeleteCollection again", before)
	u.put("bookmarks", bso("c", "x"))
	equalIDs(t, "records", u.list("bookmarks"), "c")
}

func deleteEverything(t *testing.T, u *user) {
	v := u.other()
	for _, w := range []*user{u, v} {
		w.post("bookmarks", bso("a", "x"), bso("b", "x"))
		w.put("tabs", expiring("a", "x", 1))
		w.put(newName(), bso("a", "x"))
		w.stage("forms", bso("a", "x"))
	}
	untouched := v.state()
	u.deleteAll()
	u.wantState("DeleteAll", state{})
	equalIDs(t, "List", u.list("bookmarks"))
	u.deleteAll()
	u.wantState("DeleteAll again", state{})
	v.wantState("DeleteAll of another user", untouched)
}

func deleteExpired(t *testing.T, u *user) {
	u.post("bookmarks", expiring("a", "expired", 10), expiring("b", "expired", 10), bso("c", "x"))
	u.wait(20e9)
	u.deleteBSOs("bookmarks", "a", "c")
	equal(t, "records", u.state().collections["bookmarks"].records, 0)
	u.put("bookmarks", bso("b", "y"))
	equal(t, "bytes", u.state().collections["bookmarks"].bytes, 1)
	u.post("tabs", expiring("a", "expired", 10))
	u.wait(20e9)
	u.deleteCollection("tabs")
	equal(t, "bytes of all", u.usage().Bytes(), 1)
}
