package storetest

import (
	"testing"

	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
)

func isolationChecks() []check {
	return []check{
		{"Strangers", func(t *testing.T, u *user) { apart(t, u, u.other()) }},
		{"OneAccountTwoKeys", func(t *testing.T, u *user) {
			// After a password change the account stays, keys and UID are new, and old data is unreadable.
			v := u.other()
			v.owner.FxAUID = u.owner.FxAUID
			apart(t, u, v)
		}},
		{"NeighbouringNumbers", func(t *testing.T, u *user) {
			v := u.other()
			v.owner.UID = u.owner.UID + 1
			apart(t, u, v)
		}},
	}
}

func apart(t *testing.T, a, b *user) {
	a.post("bookmarks", bso("a", "secret"), bso("b", "secret"))
	a.put("tabs", bso("a", "secret"))
	batch := a.stage("bookmarks", bso("c", "secret"))
	before := a.state()

	b.wantState("another user's writes", state{})
	equalIDs(t, "List", b.query(ss.Query{Collection: "bookmarks", IDs: []string{"a", "b"}}))
	_, err := b.store.Get(t.Context(), b.owner, ss.Request{Collection: "bookmarks", Now: b.now}, "a")
	wantCode(t, "Get", err, errcode.NotFound)
	_, err = b.store.DeleteBSO(t.Context(), b.owner, b.write("bookmarks"), "a")
	wantCode(t, "DeleteBSO", err, errcode.NotFound)
	equal(t, "DeleteBSOs", b.deleteBSOs("bookmarks", "a", "b"), ss.Written{})
	equal(t, "DeleteCollection", b.deleteCollection("bookmarks"), ss.Written{})
	_, err = b.store.Commit(t.Context(), b.owner, b.write("bookmarks"), ss.BatchPart{ID: batch, Limits: limits()})
	wantError(t, "Commit", err, ss.ErrNoBatch)
	a.wantState("another user's deletions", before)

	equal(t, "stamp", b.put("bookmarks", bso("a", "mine")), ss.Written{Modified: t0})
	b.commit("bookmarks", b.stage("bookmarks", bso("d", "mine")))
	equalIDs(t, "records", b.list("bookmarks"), "a", "d")
	b.deleteCollection("bookmarks")
	b.put("tabs", bso("a", "mine"))
	b.deleteAll()
	a.wantState("the writes of another user", before)
	a.commit("bookmarks", batch)
	equalIDs(t, "records", a.list("bookmarks"), "a", "b", "c")
}
