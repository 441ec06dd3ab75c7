package storetest

import (
	"testing"

	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
)

func stampChecks() []check {
	return []check{
		{"ClockRuns", clockRuns},
		{"ClockStands", func(t *testing.T, u *user) { stampsGrow(t, u, 0) }},
		{"ClockStepsBack", func(t *testing.T, u *user) { stampsGrow(t, u, -hour) }},
		{"ClockBetweenTicks", clockBetweenTicks},
		{"OneStampPerWrite", oneStampPerWrite},
		{"AcrossCollections", acrossCollections},
		{"Tombstones", tombstones},
		{"NewLife", newLife},
		{"Previous", previous},
		{"NothingWritten", nothingWritten},
	}
}

func clockRuns(t *testing.T, u *user) {
	b := u.stage("forms")
	for name, write := range map[string]func() ss.Written{
		"Put":    func() ss.Written { return u.put("bookmarks", bso("a", "x")) },
		"Post":   func() ss.Written { return u.post("tabs", bso("a", "x")) },
		"Commit": func() ss.Written { return u.commit("forms", b) },
	} {
		u.wait(10e6)
		equal(t, name, write().Modified, u.now)
	}
	u.wait(10e6)
	equal(t, "DeleteBSO", u.deleteBSO("bookmarks", "a").Modified, u.now)
	u.wait(10e6)
	equal(t, "DeleteBSOs", u.deleteBSOs("tabs", "a").Modified, u.now)
	u.wait(10e6)
	equal(t, "DeleteCollection", u.deleteCollection("tabs").Modified, u.now)
}

func stampsGrow(t *testing.T, u *user, step ss.Timestamp) {
	begin, writes := u.now, 0
	last := u.now - tick
	grown := func(what string, w ss.Written) {
		t.Helper()
		if w.Modified != last+tick {
			t.Errorf("%s got the stamp %v after %v", what, w.Modified, last)
		}
		last = w.Modified
		writes++
		u.now = max(begin+step*ss.Timestamp(writes), 0)
	}
	for range 3 {
		grown("Put", u.put("bookmarks", bso("a", "x")))
		grown("Put of a ttl", u.put("bookmarks", ss.Update{ID: "a", TTL: ss.Some[int64](1_000_000)}))
		grown("Post", u.post("bookmarks", bso("b", "x"), bso("c", "x")))
		grown("empty Post", u.post("bookmarks"))
		grown("Commit", u.commit("bookmarks", u.stage("bookmarks", bso("d", "x"))))
		grown("empty Commit", u.commit("bookmarks", u.stage("bookmarks")))
		grown("DeleteBSO", u.deleteBSO("bookmarks", "b"))
		grown("DeleteBSOs", u.deleteBSOs("bookmarks", "c", "absent"))
		grown("DeleteBSOs of nothing", u.deleteBSOs("bookmarks", "absent"))
		grown("Put elsewhere", u.put("tabs", bso("a", "x")))
		grown("DeleteCollection", u.deleteCollection("bookmarks"))
		grown("Put after DeleteCollection", u.put("bookmarks", bso("a", "x")))
		equal(t, "stamp of the user", u.collections().Modified, last)
	}
}

func clockBetweenTicks(t *testing.T, u *user) {
	u.now += 7
	equal(t, "first", u.put("bookmarks", bso("a", "x")).Modified, t0)
	u.now += 2
	equal(t, "within the tick", u.put("bookmarks", bso("a", "y")).Modified, t0+tick)
	u.now += 12
	equal(t, "later", u.put("bookmarks", bso("a", "z")).Modified, t0+2*tick)
	equal(t, "record", u.get("bookmarks", "a").modified, t0+2*tick)
}

func oneStampPerWrite(t *testing.T, u *user) {
	for _, way := range ways()[1:] {
		u := u.other()
		u.put("bookmarks", bso("b", "old"))
		stamp := way.write(u, "bookmarks", bso("a", "x"), bso("b", "x"), bso("c", "x")).Modified
		p := u.list("bookmarks")
		equal(t, way.name+": collection", p.modified, stamp)
		for _, r := range p.records {
			equal(t, way.name+": "+r.id, r.modified, stamp)
		}
		equal(t, way.name+": records", len(p.records), 3)
	}
}

func acrossCollections(t *testing.T, u *user) {
	want := map[string]ss.Timestamp{}
	for range 3 {
		for _, name := range []string{"bookmarks", "tabs", "forms"} {
			want[name] = u.put(name, bso("a", "x")).Modified
		}
	}
	seen := map[ss.Timestamp]bool{}
	cs := u.collections()
	for _, c := range cs.Stamps {
		equal(t, c.Name, c.Modified, want[c.Name])
		if seen[c.Modified] {
			t.Errorf("two collections were modified at %v", c.Modified)
		}
		seen[c.Modified] = true
	}
	equal(t, "collections", len(cs.Stamps), 3)
	equal(t, "user", cs.Modified, want["forms"])
}

func tombstones(t *testing.T, u *user) {
	u.put("bookmarks", bso("a", "x"))
	u.put("tabs", bso("a", "x"))
	u.wait(60e9)
	gone := u.deleteCollection("bookmarks")
	equal(t, "stamp", gone.Modified, u.now)
	equal(t, "Collections", u.collections().Modified, gone.Modified)
	equal(t, "Usage", u.usage().Modified, gone.Modified)
	u.now = t0
	equal(t, "the next write after the clock was set back", u.put("forms", bso("a", "x")).Modified, gone.Modified+tick)
	gone = u.deleteCollection("forms")
	u.deleteCollection("tabs")
	equal(t, "Collections without any", u.collections().Modified, gone.Modified+tick)
	equal(t, "the first write again", u.put("bookmarks", bso("a", "x")).Modified, gone.Modified+2*tick)
}

func newLife(t *testing.T, u *user) {
	u.put("bookmarks", bso("a", "x"))
	u.put("tabs", bso("a", "x"))
	u.deleteCollection("tabs")
	u.deleteAll()
	u.wantState("DeleteAll", state{})
	u.now -= hour
	equal(t, "stamp of the first write", u.put("bookmarks", bso("b", "x")).Modified, u.now)
	equalIDs(t, "records", u.list("bookmarks"), "b")
}

func previous(t *testing.T, u *user) {
	var last ss.Timestamp
	check := func(what string, w ss.Written) {
		t.Helper()
		equal(t, what, w.Previous, last)
		last = w.Modified
	}
	check("first Put", u.put("bookmarks", bso("a", "x")))
	u.put("tabs", bso("a", "x"))
	check("Put", u.put("bookmarks", bso("b", "x")))
	check("Post", u.post("bookmarks", bso("c", "x")))
	b := u.stage("bookmarks")
	check("Append", u.append("bookmarks", b, bso("d", "x")))
	check("Commit", u.commit("bookmarks", b))
	check("DeleteBSO", u.deleteBSO("bookmarks", "a"))
	check("DeleteBSOs", u.deleteBSOs("bookmarks", "b"))
	check("DeleteCollection", u.deleteCollection("bookmarks"))
	last = 0
	check("Put after the end", u.put("bookmarks", bso("a", "x")))

	v := u.other()
	b = v.stage("bookmarks")
	equal(t, "Append without a collection", v.append("bookmarks", b), ss.Written{})
	equal(t, "Commit without a collection", v.commit("bookmarks", b).Previous, 0)
}

func nothingWritten(t *testing.T, u *user) {
	stamp := u.put("bookmarks", bso("a", "x")).Modified
	u.wait(1e9)
	b := u.stage("bookmarks", bso("b", "x"))
	equal(t, "Append", u.append("bookmarks", b, bso("c", "x")), ss.Written{Modified: stamp, Previous: stamp})
	_, err := u.store.DeleteBSO(t.Context(), u.owner, u.write("bookmarks"), "absent")
	wantCode(t, "DeleteBSO", err, errcode.NotFound)
	_, err = u.store.Put(t.Context(), u.owner, u.writeIf("bookmarks", ifUnmodifiedSince(0)), bso("a", "y"))
	wantCode(t, "Put", err, errcode.Precondition)
	u.state()
	equal(t, "user", u.collections().Modified, stamp)
	u.now = t0
	equal(t, "the next stamp", u.put("bookmarks", bso("a", "y")).Modified, stamp+tick)
}
