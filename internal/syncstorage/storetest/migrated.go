package storetest

import (
	"testing"

	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
)

// Migrated checks a store on migrated data: every byte and stamp is intact, and writes continue. For each schema
// version, the backend's testdata/schema has a script that writes this data in this order into an empty database:
//
//	.100  user 7 puts bookmarks/a (00 ff 27, sortindex 5); user 8 puts tabs/x
//	.110  user 7 puts bookmarks/..
//	.120  user 7 posts toys/forever, empty, and toys/mortal, with a ttl of an hour
//	.130  user 7 opens a batch in bookmarks, of a and c
//	.140  user 7 puts tabs/x
//	.150  user 7 deletes tabs
func Migrated(t *testing.T, s ss.Store) {
	t.Helper()
	const then ss.Timestamp = 1_700_000_000_000
	u := &user{t: t, store: s, owner: ss.Owner{UID: 7, FxAUID: "seven", FxAKID: "1-qqo"}, now: then + 150}
	other := *u
	other.owner = ss.Owner{UID: 8, FxAUID: "eight", FxAKID: "1-qqo"}
	theirs := state{then + 100, map[string]collectionState{
		"tabs": {then + 100, 1, 5, []record{{id: "x", payload: "other", modified: then + 100}}},
	}}
	five, mortalIndex := ss.Some[int64](5), ss.Some[int64](-999999999)
	forever := record{id: "forever", modified: then + 120}
	mortal := record{id: "mortal", index: mortalIndex, payload: "dies", modified: then + 120}
	toys := collectionState{then + 120, 2, 4, []record{forever, mortal}}
	dots := record{id: "..", payload: "two", modified: then + 110}

	must(t, "Ping", s.Ping(t.Context()))
	u.wantState("the migrations", state{then + 150, map[string]collectionState{
		"bookmarks": {then + 110, 2, 6, []record{
			{id: "a", index: five, payload: "\x00\xff'", modified: then + 100}, dots,
		}},
		"toys": toys,
	}})
	other.wantState("the migrations", theirs)
	expires := then + 120 + hour
	equal(t, "expiry of toys/mortal", u.get("toys", "mortal").expiry, expires)
	equal(t, "expiry of toys/forever", u.get("toys", "forever").expiry, 0)

	// The last stamp is a deletion, and the clock is behind it.
	u.now = then
	equal(t, "stamp of the next write", u.put("bookmarks", bso("d", "four")).Modified, then+160)
	w, err := s.Commit(t.Context(), u.owner, ss.Write{Collection: "bookmarks", Now: then + 170},
		ss.BatchPart{ID: "0123456789abcdef0123456789abcdef", Updates: []ss.Update{bso("e", "")}, Limits: limits()})
	must(t, "Commit", err)
	equal(t, "stamp of the commit", w.Modified, then+170)
	u.now = then + 170
	u.wantState("a write and a commit", state{then + 170, map[string]collectionState{
		"bookmarks": {then + 170, 5, 15, []record{
			dots,
			{id: "d", payload: "four", modified: then + 160},
			{id: "a", index: five, payload: "new", modified: then + 170},
			{id: "c", index: ss.Some[int64](1), payload: "three", modified: then + 170},
			{id: "e", modified: then + 170},
		}},
		"toys": toys,
	}})

	// The collection "toys" already counts as one of the user's own names.
	two := ss.Write{Collection: "second", Now: u.now, MaxNames: 2}
	_, err = s.Put(t.Context(), u.owner, two, bso("x", ""))
	must(t, "Put into a second new name", err)
	two.Collection = "third"
	_, err = s.Put(t.Context(), u.owner, two, bso("x", ""))
	wantCode(t, "Put into a third new name", err, errcode.Denied)

	u.now = expires
	n, err := s.Sweep(t.Context(), expires, 100)
	must(t, "Sweep", err)
	equal(t, "records swept", n, 1)
	equal(t, "usage", u.usage().Bytes(), 15)
	u.deleteAll()
	u.wantState("DeleteAll", state{collections: map[string]collectionState{}})
	other.now = expires
	other.wantState("another's wipe", theirs)
}
