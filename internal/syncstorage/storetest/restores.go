package storetest

import (
	"testing"

	ss "holdfast/internal/syncstorage"
)

func restoreChecks() []check {
	return []check{
		{"EndBatches", endBatches},
	}
}

// endBatches ends the batches of all users, which a restored database may hold without their last records.
func endBatches(t *testing.T, u *user) {
	v := newUser(t, u.h)
	v.now = u.now
	u.put("bookmarks", bso("a", "x"))
	all := map[*user]map[string]ss.BatchID{
		u: {"bookmarks": u.stage("bookmarks", bso("b", "x")), "tabs": u.stage("tabs", bso("b", "x"))},
		v: {"bookmarks": v.stage("bookmarks", bso("b", "x"))},
	}
	for range 2 {
		must(t, "EndBatches", u.store.EndBatches(t.Context()))
	}
	before := u.state()
	for of, batches := range all {
		for collection, b := range batches {
			_, err := of.store.Append(t.Context(), of.owner, of.write(collection), ss.BatchPart{ID: b, Updates: []ss.Update{bso("c", "x")}, Limits: limits()})
			wantError(t, "Append in "+collection, err, ss.ErrNoBatch)
			_, err = of.store.Commit(t.Context(), of.owner, of.write(collection), ss.BatchPart{ID: b, Limits: limits()})
			wantError(t, "Commit in "+collection, err, ss.ErrNoBatch)
		}
	}
	u.wantState("requests with ended batches", before)
	u.commit("bookmarks", u.stage("bookmarks", bso("c", "x")))
	equalIDs(t, "records", u.list("bookmarks"), "a", "c")
}
