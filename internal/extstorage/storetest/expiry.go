package storetest

import (
	"testing"

	"holdfast/internal/canonjson"
	ext "holdfast/internal/extstorage"
)

func expiryChecks() []check {
	return []check{
		{"ExactInstant", exactInstant},
		{"PutClears", putClears},
		{"Keep", keepExpiry},
		{"NewLife", newLife},
		{"IsNotCounted", expiredIsNotCounted},
		{"ReadsDoNotWrite", readsDoNotWrite},
	}
}

func exactInstant(t *testing.T, u *user) {
	until := u.now + minute
	u.apply(expiring("s", "a", `1`, until), put("s", "b", `1`))
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

func putClears(t *testing.T, u *user) {
	u.apply(expiring("s", "a", `1`, u.now+minute))
	equal(t, "expires", u.do(put("s", "a", `2`)).ExpiresAt, ext.Moment(0))
	u.now += day
	equal(t, "value", u.get("s", "a").Value, canonjson.Value(`2`))
	equal(t, "expires", u.do(expiring("s", "a", `3`, u.now+hour)).ExpiresAt, u.now+hour)
}

func keepExpiry(t *testing.T, u *user) {
	until := u.now + minute
	u.apply(expiring("s", "a", `1`, until))
	op := put("s", "a", `2`)
	op.Keep, op.ExpiresAt = true, until+hour
	equal(t, "expires", u.do(op).ExpiresAt, until)
	u.now = until
	u.wantGone("s", "a")
	it := u.do(op)
	equal(t, "expires in a new life", []ext.Moment{it.ExpiresAt, it.CreatedAt}, []ext.Moment{until + hour, u.now})
}

func newLife(t *testing.T, u *user) {
	old := expiring("s", "a", `"old"`, u.now+minute)
	old.Metadata = `{"old":true}`
	u.apply(old, put("s", "b", `1`))
	u.apply(old)
	u.now += 2 * minute
	it := u.do(put("s", "a", `1`))
	equal(t, "item", it, ext.Item{Revision: 1, Seq: 4, Created: true, CreatedAt: u.now, UpdatedAt: u.now})
	r := u.get("s", "a")
	equal(t, "metadata", r.Metadata, canonjson.EmptyObject)
	equal(t, "counters", u.audited(), ext.Counters{Bytes: 6, Keys: 2, Namespaces: 1})
	u.state()
}

func expiredIsNotCounted(t *testing.T, u *user) {
	for what, remove := range map[string]func(u *user){
		"nothing": func(*user) {},
		"delete":  func(u *user) { u.apply(del("s", "a")) },
		"put":     func(u *user) { u.apply(put("s", "a", `1`)); u.apply(del("s", "a")) },
	} {
		u := u.other()
		u.apply(expiring("s", "a", `123`, u.now+minute))
		u.now += minute
		equal(t, "usage", u.usage(), ext.Usage{})
		remove(u)
		equal(t, "counters after "+what, u.audited(), ext.Counters{})
		u.state()
	}
}

func readsDoNotWrite(t *testing.T, u *user) {
	u.apply(expiring("s", "a", `1`, u.now+minute), put("s", "b", `1`))
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
	equal(t, "the record at an earlier time", u.get("s", "a").Value, canonjson.Value(`1`))
}
