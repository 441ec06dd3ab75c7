package storetest

import (
	"fmt"
	"testing"

	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
)

func mergeChecks() []check {
	return []check{
		{"Table", mergeTable},
		{"StageTable", stageTable},
		{"NewAndOldInOneWrite", newAndOld},
		{"FewAndMany", fewAndMany},
		{"OnlyTTL", onlyTTL},
	}
}

func mergeTable(t *testing.T, u *user) {
	for _, way := range ways() {
		for _, tc := range MergeCases() {
			if tc.Mode != way.mode {
				continue
			}
			name := way.name + ": " + tc.Name
			u := u.other().at(CaseFirst)
			if tc.First != nil {
				u.post("bookmarks", *tc.First, bso("bystander", "y"))
			} else {
				u.post("bookmarks", bso("bystander", "y"))
			}
			bystander := u.get("bookmarks", "bystander")
			u.now = CaseSecond
			written := way.write(u, "bookmarks", tc.Second)
			equal(t, name+": stamp", written.Modified, CaseSecond)
			equal(t, name, u.get("bookmarks", "a"), recordOf(&tc.Want))
			equal(t, name+": bystander", u.get("bookmarks", "bystander"), bystander)
			if c := u.state().collections["bookmarks"]; c.modified != CaseSecond || c.records != 2 || c.bytes != int64(len(tc.Want.Payload))+1 {
				t.Errorf("%s: the collection is %+v", name, c)
			}
		}
	}
}

func stageTable(t *testing.T, u *user) {
	for _, tc := range StageCases() {
		for _, last := range []string{"append", "commit"} {
			for _, over := range []*ss.Update{nil, {ID: "a", SortIndex: ss.Some[int64](-1), Payload: text("stored"), TTL: ss.Some[int64](9999)}} {
				name := fmt.Sprintf("%s by %s, over a record: %v", tc.Name, last, over != nil)
				u := u.other().at(CaseFirst)
				var old *ss.BSO
				if over != nil {
					b, _ := ss.Merge(nil, over, u.put("bookmarks", *over).Modified, ss.Direct)
					old = &b
				}
				b := u.stage("bookmarks", tc.First)
				u.now = CaseSecond
				if last == "append" {
					u.append("bookmarks", b, tc.Second)
					u.commit("bookmarks", b)
				} else {
					u.commit("bookmarks", b, tc.Second)
				}
				want, _ := ss.Merge(old, &tc.Want, CaseSecond, ss.FromBatch)
				equal(t, name, u.get("bookmarks", "a"), recordOf(&want))
			}
		}
	}
}

func newAndOld(t *testing.T, u *user) {
	u.post("bookmarks", bso("change", "old"), bso("touch", "kept"), expiring("revive", "dead", 1), bso("keep", "kept"))
	first := u.get("bookmarks", "touch").modified
	u.wait(10e9)
	m := u.post("bookmarks", bso("change", "new"), ss.Update{ID: "touch", TTL: ss.Some[int64](60)}, ss.Update{ID: "revive"}, bso("create", "new")).Modified
	for _, want := range []record{
		{id: "change", payload: "new", modified: m},
		{id: "touch", payload: "kept", modified: first, expiry: m + 60*second},
		{id: "revive", modified: m},
		{id: "create", payload: "new", modified: m},
		{id: "keep", payload: "kept", modified: first},
	} {
		equal(t, want.id, u.get("bookmarks", want.id), want)
	}
	u.state()
}

func fewAndMany(t *testing.T, u *user) {
	const records = 20
	id := func(i int) string { return fmt.Sprintf("%c%d", "bB"[i%2], i) }
	for _, n := range []int{1, 2, records / 2, records} {
		u := u.other()
		var first []ss.Update
		for i := range records {
			first = append(first, bso(id(i), "old"))
		}
		before := u.post("bookmarks", first...).Modified
		u.wait(1e9)
		us := []ss.Update{bso("z", "new"), bso("b", "new"), bso("A", "new")}
		for i := range n {
			us = append(us, bso(id(records-1-i), fmt.Sprint("new ", i)))
		}
		m := u.post("bookmarks", us...).Modified
		for _, up := range us {
			equal(t, up.ID, u.get("bookmarks", up.ID), record{id: up.ID, payload: string(up.Payload.Value), modified: m})
		}
		for i := range records - n {
			equal(t, id(i), u.get("bookmarks", id(i)), record{id: id(i), payload: "old", modified: before})
		}
		equal(t, "records", u.state().collections["bookmarks"].records, records+3)
	}
}

func onlyTTL(t *testing.T, u *user) {
	first := u.put("bookmarks", bso("a", "x")).Modified
	u.wait(1e9)
	moved := u.put("bookmarks", ss.Update{ID: "a", TTL: ss.Some[int64](100)}).Modified
	equal(t, "record", u.get("bookmarks", "a").modified, first)
	equal(t, "collection", u.list("bookmarks").modified, moved)
	equal(t, "user", u.collections().Modified, moved)
	if moved <= first {
		t.Errorf("the collection's stamp %v did not move beyond %v", moved, first)
	}
	u.put("bookmarks", ss.Update{ID: "a", TTL: ss.Some[int64](0)})
	_, err := u.store.Get(t.Context(), u.owner, ss.Request{Collection: "bookmarks", Now: u.now}, "a")
	wantCode(t, "Get", err, errcode.NotFound)
}
