package storetest

import (
	"testing"

	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
)

func expiryChecks() []check {
	return []check{
		{"Boundary", expiryBoundary},
		{"AtOnce", expiredAtOnce},
		{"Horizon", horizon},
		{"HorizonOfEachCollection", horizonOfEach},
		{"WrittenOver", expiredWrittenOver},
		{"RecordsAreCounted", expiredAreNotListed},
		{"BetweenTicks", expiryBetweenTicks},
	}
}

// wantVisible checks the visible records in all reads: list, get and counts.
func (u *user) wantVisible(when, collection string, want ...string) {
	u.t.Helper()
	equalIDs(u.t, when, u.list(collection), want...)
	alive := map[string]bool{}
	for _, id := range want {
		alive[id] = true
	}
	for _, id := range []string{"a", "b", "c"} {
		_, err := u.store.Get(u.t.Context(), u.owner, ss.Request{Collection: collection, Now: u.now}, id)
		if alive[id] {
			must(u.t, when+": Get "+id, err)
		} else {
			wantCode(u.t, when+": Get "+id, err, errcode.NotFound)
		}
	}
	for _, c := range u.usage().Collections {
		if c.Name == collection {
			equal(u.t, when+": usage", c.Records, int64(len(want)))
		}
	}
}

func expiryBoundary(t *testing.T, u *user) {
	u.post("tabs", expiring("a", "x", 10), expiring("b", "x", 20), bso("c", "x"))
	for _, tc := range []struct {
		after ss.Timestamp
		want  []string
	}{
		{0, []string{"a", "b", "c"}},
		{10*second - 1, []string{"a", "b", "c"}},
		{10 * second, []string{"b", "c"}},
		{10*second + 1, []string{"b", "c"}},
		{20*second - 1, []string{"b", "c"}},
		{20 * second, []string{"c"}},
		{1000 * hour, []string{"c"}},
	} {
		u.at(t0+tc.after).wantVisible("after "+tc.after.String(), "tabs", tc.want...)
	}
	v := u.at(t0 + 10*second)
	_, err := v.store.DeleteBSO(t.Context(), v.owner, v.write("tabs"), "a")
	wantCode(t, "DeleteBSO at the expiry", err, errcode.NotFound)
	v = u.at(t0 + 20*second - tick)
	v.deleteBSO("tabs", "b")
}

func expiredAtOnce(t *testing.T, u *user) {
	for _, way := range ways() {
		u := u.other()
		u.put("tabs", bso("a", "x"))
		way.write(u, "tabs", expiring("a", "y", 0), expiring("b", "y", 0), bso("c", "y"))
		u.wantVisible(way.name, "tabs", "c")
	}
}

func horizon(t *testing.T, u *user) {
	u.put("tabs", bso("c", "x"))
	u.now -= hour
	u.put("tabs", expiring("a", "x", 0))
	u.wantVisible("a ttl of 0 with a slow clock", "tabs", "c")
	w := u.put("tabs", expiring("b", "x", 1))
	u.wantVisible("a live record with a slow clock", "tabs", "c", "b")
	u.now = w.Modified + second
	u.put("tabs", bso("c", "y"))
	u.now -= hour
	u.wantVisible("after a write at its expiry, with a slow clock", "tabs", "c")
}

func horizonOfEach(t *testing.T, u *user) {
	u.put("tabs", expiring("a", "x", 60))
	u.now += hour
	u.put("forms", bso("a", "x"))
	u.now = t0 + 10*second
	u.wantVisible("a record of another collection", "tabs", "a")
	u.state()
}

func expiredWrittenOver(t *testing.T, u *user) {
	for _, way := range ways() {
		u := u.other()
		u.post("tabs", ss.Update{ID: "a", SortIndex: ss.Some[int64](5), Payload: text("dead"), TTL: ss.Some[int64](10)})
		u.wait(10e9)
		m := way.write(u, "tabs", ss.Update{ID: "a", SortIndex: ss.Some[int64](6)}).Modified
		equal(t, way.name, u.get("tabs", "a"), record{id: "a", index: ss.Some[int64](6), modified: m})
		u.wait(100e9)
		u.wantVisible(way.name+" much later", "tabs", "a")
	}
}

func expiredAreNotListed(t *testing.T, u *user) {
	u.post("tabs", expiring("0", "x", 1), bso("a", "x"), expiring("aa", "x", 1), bso("b", "x"), expiring("bb", "x", 1), bso("c", "x"), expiring("d", "x", 1))
	u.wait(5e9)
	q := ss.Query{Collection: "tabs", Sort: ss.Oldest, Limit: ss.Some(2)}
	p := u.query(q)
	equalIDs(t, "page", p, "a", "b")
	p = u.query(turn(t, q, p))
	equalIDs(t, "the next page", p, "c")
	equal(t, "more", p.more, false)
	q.Offset.Skip = 1
	equalIDs(t, "the next page", u.query(q), "b", "c")
	q.Limit, q.Offset = ss.Some(3), ss.Offset{}
	equal(t, "more of exactly the limit", u.query(q).more, false)
}

func expiryBetweenTicks(t *testing.T, u *user) {
	u.now += 7
	u.put("tabs", expiring("a", "x", 1))
	equal(t, "expiry", u.get("tabs", "a").expiry, t0+second)
	u.at(t0+second-1).wantVisible("a millisecond before", "tabs", "a")
	u.at(t0+second).wantVisible("at the expiry", "tabs")
}
