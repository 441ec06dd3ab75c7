package storetest

import (
	"testing"

	ext "holdfast/internal/extstorage"
)

func expiryChecks() []check {
	return []check{
		{"ExactInstant", exactInstant},
		{"PutClears", putClears},
		{"Keep", keepExpiry},
		{"NewLife", newLife},
		{"CountsUntilItIsGone", countsUntilGone},
		{"ReadsDoNotWrite", readsDoNotWrite},
		{"Reclaim", reclaimExpired},
		{"ClockTurnedBack", clockTurnedBack},
	}
}

// exactInstant: a record is there until the millisecond before its moment and
// not at it, by every way to see it.
func exactInstant(t *testing.T, u *user) {
	until := u.now + minute
	u.apply(mortal("s", "a", `1`, until), put("s", "b", `1`))
	u.now = until - 1
	equal(t, "expires", u.get("s", "a").ExpiresAt, until)
	u.wantKeys("a millisecond before", u.list(ext.Query{Namespace: "s"}), "a", "b")
	u.state()
	u.apply(guarded(look("s", "a"), ifRevision(1)))
	u.now = until
	u.wantGone("s", "a")
	u.wantKeys("at the moment", u.list(ext.Query{Namespace: "s"}), "b")
	u.state()
	u.apply(guarded(look("s", "a"), ifRevision(0)))
}

// putClears: a put without a time to live takes it away.
func putClears(t *testing.T, u *user) {
	u.apply(mortal("s", "a", `1`, u.now+minute))
	equal(t, "expires", u.do(put("s", "a", `2`)).ExpiresAt, ext.Moment(0))
	u.now += day
	equal(t, "value", u.get("s", "a").Value, ext.Value(`2`))
	equal(t, "nothing to reclaim", u.reclaim(10), 0)
	equal(t, "expires", u.do(mortal("s", "a", `3`, u.now+hour)).ExpiresAt, u.now+hour)
}

// keepExpiry: a merge patch or an increment leaves the time to live as it is.
func keepExpiry(t *testing.T, u *user) {
	until := u.now + minute
	u.apply(mortal("s", "a", `1`, until))
	op := put("s", "a", `2`)
	op.Keep, op.ExpiresAt = true, until+hour
	equal(t, "expires", u.do(op).ExpiresAt, until)
	u.now = until
	u.wantGone("s", "a")
	it := u.do(op)
	equal(t, "expires in a new life", []ext.Moment{it.ExpiresAt, it.CreatedAt}, []ext.Moment{until + hour, u.now})
}

// newLife: a put over what has expired begins anew, and what was before is
// neither met nor brought back.
func newLife(t *testing.T, u *user) {
	old := mortal("s", "a", `"old"`, u.now+minute)
	old.Metadata = `{"old":true}`
	u.apply(old, put("s", "b", `1`))
	u.apply(old)
	u.now += 2 * minute
	it := u.do(put("s", "a", `1`))
	equal(t, "item", it, ext.Item{Revision: 1, Seq: 4, Created: true, CreatedAt: u.now, UpdatedAt: u.now})
	r := u.get("s", "a")
	equal(t, "metadata", r.Metadata, ext.EmptyObject)
	equal(t, "counters", u.audited(), ext.Counters{Bytes: 6, Keys: 2, Namespaces: 1})
	equal(t, "what is left to reclaim", u.reclaim(10), 0)
	u.state()
}

// countsUntilGone: an expired record is in the counters until it is removed, by
// a delete, a put in its place, or a reclaim.
func countsUntilGone(t *testing.T, u *user) {
	for what, remove := range map[string]func(u *user){
		"delete":  func(u *user) { u.apply(del("s", "a")) },
		"put":     func(u *user) { u.apply(put("s", "a", `1`)); u.apply(del("s", "a")) },
		"reclaim": func(u *user) { u.reclaim(10) },
	} {
		u := u.other()
		u.apply(mortal("s", "a", `123`, u.now+minute))
		u.now += minute
		equal(t, "usage that a client sees", u.usage().Namespaces, []ext.NamespaceUsage(nil))
		equal(t, "counters before "+what, u.audited(), ext.Counters{Bytes: 5, Keys: 1, Namespaces: 1})
		remove(u)
		equal(t, "counters after "+what, u.audited(), ext.Counters{})
		u.state()
	}
}

// readsDoNotWrite: whatever is read of an expired record leaves it where it is.
func readsDoNotWrite(t *testing.T, u *user) {
	u.apply(mortal("s", "a", `1`, u.now+minute), put("s", "b", `1`))
	u.now += hour
	before, counters := u.state(), u.audited()
	for range 3 {
		u.wantGone("s", "a")
		u.list(ext.Query{Namespace: "s", Values: true})
		u.usage()
		u.changes(0)
	}
	u.wantState("reads", before)
	equal(t, "counters", u.audited(), counters)
	u.now -= hour
	equal(t, "what is still there", u.get("s", "a").Value, ext.Value(`1`))
}

// reclaimExpired: Reclaim takes what expired first, no more than it may, and
// tells the feed of each, with its last revision.
func reclaimExpired(t *testing.T, u *user) {
	v := u.other()
	v.apply(mortal("s", "a", `1`, v.now+1))
	u.apply(mortal("s", "a", `1`, u.now+30), mortal("s", "b", `1`, u.now+10), mortal("t", "c", `1`, u.now+20), mortal("t", "d", `1`, u.now+40),
		put("t", "e", `1`), mortal("t", "b", `1`, u.now+10), mortal("a", "z", `1`, u.now+10))
	u.apply(mortal("s", "b", `1`, u.now+10))
	u.now += 30
	before := u.state()
	equal(t, "Reclaim", []int{u.reclaim(2), u.reclaim(2), u.reclaim(2), u.reclaim(2)}, []int{2, 2, 1, 0})
	var order []string
	for _, c := range u.changes(8) {
		equal(t, "op", c.Op, ext.ChangeExpire)
		order = append(order, string(c.Namespace)+string(c.Key))
		equal(t, "revision of "+string(c.Key), c.Revision, map[bool]ext.Revision{true: 2, false: 1}[c.Namespace == "s" && c.Key == "b"])
	}
	equal(t, "order", order, []string{"az", "sb", "tb", "tc", "sa"})
	after := u.state()
	equal(t, "records", after.records, before.records)
	equal(t, "counters", after.counters, ext.Counters{Bytes: 6, Keys: 2, Namespaces: 1})
	v.now = u.now
	equal(t, "what is another's", v.reclaim(10), 1)
}

// clockTurnedBack: what was removed does not come back with the clock, and what
// was not is there again.
func clockTurnedBack(t *testing.T, u *user) {
	u.apply(mortal("s", "a", `1`, u.now+minute), mortal("s", "b", `1`, u.now+hour))
	u.now += minute
	equal(t, "Reclaim", u.reclaim(10), 1)
	u.now -= 30 * second
	u.wantKeys("after it", u.list(ext.Query{Namespace: "s"}), "b")
	equal(t, "a new life", u.do(put("s", "a", `1`)).Revision, ext.Revision(1))
	wantLives(t, u)
	u.state()
}
