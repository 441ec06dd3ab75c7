package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/suite"
	"holdfast/internal/testdb"
)

func quotaChecks() []check {
	return []check{
		{"Keys", quotaKeys},
		{"Namespaces", quotaNamespaces},
		{"Bytes", quotaBytes},
		{"Shrink", quotaShrink},
		{"NetOfABatch", quotaNet},
		{"IndexOfTheOperation", quotaIndex},
		{"OrderOfTheQuotas", quotaOrder},
		{"ExpiredNeverCounts", expiredNeverCounts},
		{"ExpiredIsNoRoomOfItsOwn", expiredIsNoRoom},
		{"ManyExpired", manyExpired},
		{"NothingIsRemoved", quotaRemovesNothing},
		{"ClockThatIsFast", quotaOfTwoClocks},
		{"SchemasByTwoClocks", schemasByTwoClocks},
		{"SchemaOfExpiredNamespace", schemaOfExpiredNamespace},
		{"LastPlace", lastPlace},
		{"LastPlaceByTwoClocks", lastPlaceByTwoClocks},
	}
}

func overQuota(i int, what string, limit, used int64) error {
	return item(i, &ext.QuotaError{What: what, Limit: limit, Used: used})
}

func isQuota(err error) bool { return errcode.Is(err, errcode.Quota) }

func quotaKeys(t *testing.T, u *user) {
	u.quota.Keys = 3
	u.apply(put("s", "a", `1`), put("s", "b", `1`), put("s", "c", `1`))
	before := u.state()
	_, err := u.try(put("s", "d", `1`))
	wantError(t, "a fourth key", err, overQuota(0, "keys", 3, 4))
	u.wantState("it", before)
	u.apply(put("s", "a", `"an existing key may grow"`))
	u.apply(put("other", "a", `1`))
	u.apply(del("s", "a"))
	u.apply(put("s", "d", `1`))
	_, err = u.try(put("s", "a", `1`))
	wantError(t, "the fourth key again", err, overQuota(0, "keys", 3, 4))
}

func quotaNamespaces(t *testing.T, u *user) {
	u.quota.Namespaces = 2
	u.apply(put("x", "a", `1`), put("y", "a", `1`))
	_, err := u.try(put("z", "a", `1`))
	wantError(t, "a third namespace", err, overQuota(0, "namespaces", 2, 3))
	u.apply(put("x", "b", `1`))
	u.apply(del("y", "a"))
	u.apply(put("z", "a", `1`))
	u.state()
}

func quotaBytes(t *testing.T, u *user) {
	u.quota.Bytes = 100
	exact := put("s", "a", `"`+strings.Repeat("x", 88)+`"`)
	exact.Metadata = `{"m":1234}`
	_, err := u.try(put("s", "a", `"`+strings.Repeat("x", 97)+`"`))
	wantError(t, "a byte too many", err, overQuota(0, "bytes", 100, 101))
	equal(t, "bytes", u.after(exact).Bytes, int64(100))
	_, err = u.try(put("s", "b", `1`))
	wantError(t, "another byte", err, overQuota(0, "bytes", 100, 103))
	u.apply(put("s", "a", `"`+strings.Repeat("é", 48)+`"`))
	equal(t, "bytes", u.audited().Bytes, int64(100))
	op := put("s", "a", `1`)
	op.Metadata = canonjson.Value(`{"m":"` + strings.Repeat("y", 92) + `"}`)
	_, err = u.try(op)
	wantError(t, "metadata too large", err, overQuota(0, "bytes", 100, 101))
	u.state()
}

func quotaShrink(t *testing.T, u *user) {
	u.apply(put("x", "a", `12345`), put("x", "b", `1`), put("x", "c", `1`), put("y", "a", `1`), put("z", "a", `1`))
	u.quota = ext.Quota{Bytes: 5, Namespaces: 1, Keys: 1}
	u.apply(put("x", "a", `1234`))
	u.apply(put("x", "a", `4321`))
	u.apply(del("x", "c"))
	u.apply(del("z", "a"))
	u.apply(del("x", "b"), put("x", "d", `1`))
	before := u.state()
	for what, c := range map[string]struct {
		op  ext.Op
		err error
	}{
		"bytes":      {put("x", "a", `43210`), overQuota(0, "bytes", 5, 13)},
		"keys":       {put("x", "e", `1`), overQuota(0, "keys", 1, 3)},
		"namespaces": {put("n", "a", `1`), overQuota(0, "namespaces", 1, 3)},
	} {
		_, err := u.try(c.op)
		wantError(t, "more "+what, err, c.err)
	}
	u.wantState("the refused writes", before)
	u.quota = ext.Quota{}
	u.apply(del("x", "a"), del("x", "d"), del("y", "a"))
	equal(t, "counters", u.audited(), ext.Counters{})
}

func quotaNet(t *testing.T, u *user) {
	u.quota = ext.Quota{Bytes: 6, Namespaces: 1, Keys: 2}
	u.apply(put("x", "a", `1`), put("x", "b", `1`))
	u.apply(put("x", "c", `1`), del("x", "a"))
	u.apply(put("y", "a", `1`), put("y", "b", `1`), del("x", "b"), del("x", "c"))
	u.apply(put("y", "a", `"far too long in between"`), put("y", "a", `1`))
	equal(t, "counters", u.audited(), ext.Counters{Bytes: 6, Keys: 2, Namespaces: 1})
	u.state()
}

func quotaIndex(t *testing.T, u *user) {
	u.quota.Keys = 2
	u.apply(put("s", "a", `1`))
	for _, c := range []struct {
		name string
		ops  []ext.Op
		at   int
		used int64
	}{
		{"the third", []ext.Op{put("s", "b", `1`), put("s", "a", `2`), put("s", "c", `1`), put("s", "d", `1`)}, 2, 4},
		{"over, back, and over again", []ext.Op{put("s", "b", `1`), put("s", "c", `1`), del("s", "b"), put("s", "d", `1`)}, 3, 3},
		{"among others", []ext.Op{put("n", "b", `1`), put("s", "b", `1`), put("n", "c", `1`), put("s", "c", `1`), look("s", "x"), put("s", "c", `2`)}, 3, 3},
	} {
		_, err := u.try(c.ops...)
		wantError(t, c.name, err, overQuota(c.at, "keys", 2, c.used))
	}
	u.quota = ext.Quota{Bytes: 10, Namespaces: 9, Keys: 9}
	_, err := u.try(put("s", "a", `12345678`), put("s", "b", `1`), del("s", "b"), put("s", "c", `2`), put("s", "d", `2`))
	wantError(t, "bytes", err, overQuota(3, "bytes", 10, 16))
	u.quota = ext.Quota{Bytes: 1000, Namespaces: 2, Keys: 9}
	_, err = u.try(put("n", "b", `1`), put("m", "b", `1`), del("n", "b"), put("o", "b", `1`))
	wantError(t, "namespaces", err, overQuota(3, "namespaces", 2, 3))
	u.state()
}

func quotaOrder(t *testing.T, u *user) {
	u.apply(put("s", "a", `1`))
	u.quota = ext.Quota{Bytes: 5, Namespaces: 1, Keys: 1}
	_, err := u.try(put("s", "b", `12345`), put("n", "b", `1`))
	wantError(t, "all three", err, overQuota(1, "namespaces", 1, 2))
	u.quota.Namespaces = 2
	_, err = u.try(put("n", "b", `12345`), put("s", "b", `1`), put("n", "c", `1`))
	wantError(t, "two, keys of two namespaces", err, overQuota(2, "keys", 1, 2))
	u.quota.Keys = 5
	_, err = u.try(put("n", "b", `12345`), put("s", "b", `1`), put("n", "c", `1`))
	wantError(t, "bytes", err, overQuota(0, "bytes", 5, 16))
}

func expiredNeverCounts(t *testing.T, u *user) {
	for what, q := range map[string]ext.Quota{
		"keys":       {Bytes: 1000, Namespaces: 9, Keys: 2},
		"bytes":      {Bytes: 9, Namespaces: 9, Keys: 9},
		"namespaces": {Bytes: 1000, Namespaces: 2, Keys: 9},
	} {
		u := u.other()
		u.quota = q
		other := "s"
		if what == "namespaces" {
			other = "r"
		}
		u.apply(expiring(other, "a", `1`, u.now+minute), expiring("s", "b", `12`, u.now+minute))
		u.now += minute - 1
		if _, err := u.try(put("s", "c", `1`), put("n", "d", `1`), put("n", "e", `1`)); !isQuota(err) {
			t.Errorf("%s: a write before the others expire: %v", what, err)
		}
		u.now++
		u.apply(put("s", "c", `1`), put("n", "d", `1`))
		equal(t, what+": counters", u.audited(), ext.Counters{Bytes: 6, Keys: 2, Namespaces: 2})
		equal(t, what+": stored counters", u.stored(), ext.Counters{Bytes: 6, Keys: 2, Namespaces: 2})
		equal(t, what+": changes", u.changes(2), []ext.Change{
			{Seq: 3, Op: ext.ChangePut, Namespace: "s", Key: "c", Revision: 1, At: u.now},
			{Seq: 4, Op: ext.ChangePut, Namespace: "n", Key: "d", Revision: 1, At: u.now},
		})
		u.state()
		u.apply(del(other, "a"), del("s", "b"))
		equal(t, what+": counters", u.audited(), ext.Counters{Bytes: 6, Keys: 2, Namespaces: 2})
	}
}

func expiredIsNoRoom(t *testing.T, u *user) {
	u.apply(put("s", "a", `1`), put("s", "b", `1`), expiring("s", "c", `1`, u.now+minute), expiring("s", "d", `1`, u.now+minute))
	u.quota.Keys = 2
	u.now += minute
	before := u.state()
	_, err := u.try(put("s", "e", `1`))
	wantError(t, "a third, existing key", err, overQuota(0, "keys", 2, 3))
	_, err = u.try(del("s", "c"), put("s", "e", `1`))
	wantError(t, "a third in place of an expired one", err, overQuota(1, "keys", 2, 3))
	u.wantState("it", before)
	u.apply(put("s", "a", `2`))
	v := u.other()
	v.apply(expiring("s", "a", `1`, v.now+minute), expiring("t", "a", `1`, v.now+minute))
	v.now += minute
	v.quota.Keys = 0
	_, err = v.try(put("s", "a", `1`))
	wantError(t, "a key over its expired record", err, overQuota(0, "keys", 0, 1))
	v.quota.Keys, v.quota.Namespaces = 1, 1
	_, err = v.try(put("s", "a", `1`), put("t", "a", `1`))
	wantError(t, "two namespaces over their expired records", err, overQuota(1, "namespaces", 1, 2))
	u.quota.Keys = 3
	u.apply(put("s", "e", `1`))
	equal(t, "keys", u.audited().Keys, int64(3))
	u.state()
}

func manyExpired(t *testing.T, u *user) {
	const expired = 600
	for n := 0; n < expired; n += 100 {
		var ops []ext.Op
		for i := n; i < n+100; i++ {
			ops = append(ops, expiring(fmt.Sprint("s", i%3), fmt.Sprintf("%04d", i), `1`, u.now+minute+ext.Moment(i)))
		}
		u.apply(ops...)
	}
	u.now += minute + expired/2 - 1
	u.quota = ext.Quota{Bytes: 3*expired/2 + 3, Namespaces: 3, Keys: expired / 6}
	_, err := u.try(put("s1", "new", `1`))
	wantError(t, "a key too many", err, overQuota(0, "keys", expired/6, expired/6+1))
	u.now += 3
	u.apply(put("s1", "new", `1`))
	equal(t, "stored counters", u.stored(), ext.Counters{Bytes: 3 * (expired/2 - 2), Keys: expired/2 - 2, Namespaces: 3})
	u.now += hour
	u.quota.Namespaces = 1
	u.apply(put("s1", "another", `1`))
	equal(t, "stored counters", u.stored(), ext.Counters{Bytes: 6, Keys: 2, Namespaces: 1})
	_, err = u.try(put("s2", "new", `1`))
	wantError(t, "a second namespace", err, overQuota(0, "namespaces", 1, 2))
	u.state()
}

// quotaRemovesNothing checks that a write at a quota removes no expired record, because the record is visible again after
// the clock is set back.
func quotaRemovesNothing(t *testing.T, u *user) {
	u.quota.Keys = 3
	u.apply(put("s", "a", `1`), put("s", "b", `1`), expiring("s", "c", `1`, u.now+minute))
	before := u.now
	u.now += minute
	last := u.state().last
	_, err := u.try(put("s", "d", `1`), put("s", "e", `1`))
	wantError(t, "two keys where one fits", err, overQuota(1, "keys", 3, 4))
	equal(t, "counters", u.audited(), ext.Counters{Bytes: 6, Keys: 2, Namespaces: 1})
	equal(t, "changes", u.changes(last), []ext.Change(nil))
	u.apply(put("s", "d", `1`))
	equal(t, "counters", u.audited(), ext.Counters{Bytes: 9, Keys: 3, Namespaces: 1})
	u.now = before
	equal(t, "what expired", u.get("s", "c").Revision, ext.Revision(1))
	equal(t, "counters", u.audited(), ext.Counters{Bytes: 12, Keys: 4, Namespaces: 1})
}

// quotaOfTwoClocks checks that two servers, one an hour fast, each apply exact quotas by their own clock, whichever wrote
// last.
func quotaOfTwoClocks(t *testing.T, u *user) {
	u.quota.Keys = 2
	u.apply(expiring("s", "a", `1`, u.now+minute), put("s", "b", `1`))
	fast := u.at(u.now + hour)
	fast.apply(put("s", "c", `1`))
	_, err := fast.try(put("s", "d", `1`))
	wantError(t, "a third by the fast clock", err, overQuota(0, "keys", 2, 3))
	equal(t, "the record that has expired by the fast clock", u.get("s", "a").Value, canonjson.Value(`1`))
	_, err = u.try(put("s", "d", `1`))
	wantError(t, "a fourth by the other", err, overQuota(0, "keys", 2, 4))
	u.apply(put("s", "a", `2`))
	_, err = fast.try(put("s", "d", `1`))
	wantError(t, "a fourth by the fast clock", err, overQuota(0, "keys", 2, 4))
	u.apply(del("s", "c"), del("s", "b"))
	_, err = fast.try(put("s", "d", `1`), put("s", "e", `1`))
	wantError(t, "two keys where one fits", err, overQuota(1, "keys", 2, 3))
	fast.apply(expiring("s", "d", `1`, u.now+minute))
	fast.apply(put("s", "e", `1`))
	_, err = u.try(put("s", "f", `1`))
	wantError(t, "a fourth by the other", err, overQuota(0, "keys", 2, 4))
	u.state()
	fast.state()
}

func schemasByTwoClocks(t *testing.T, u *user) {
	u.quota.Namespaces = 2
	u.apply(expiring("s", "a", `1`, u.now+minute), put("t", "b", `1`))
	u.quota.Keys = 1
	_, err := u.at(u.now + hour).try(put("t", "c", `1`))
	wantError(t, "a second key by the fast clock", err, overQuota(0, "keys", 1, 2))
	u.quota.Keys = 99

	sc := ext.Schema{Namespace: "u", Document: []byte(`{}`), CreatedAt: u.now}
	_, err = u.h.Registry.Register(t.Context(), u.owner, sc, u.quota)
	wantError(t, "the schema of a third namespace", err, ext.NamespaceQuota(u.quota, 3))
	sc.Version, sc.Status = 1, ext.Active
	_, err = u.h.Registry.Restore(t.Context(), u.owner, sc, u.quota, u.now)
	wantError(t, "the restored schema of a third namespace", err, ext.NamespaceQuota(u.quota, 3))
	equal(t, "counters", u.audited(), ext.Counters{Bytes: 6, Keys: 2, Namespaces: 2})
}

func schemaOfExpiredNamespace(t *testing.T, u *user) {
	u.quota.Namespaces = 1
	u.apply(expiring("s", "a", `1`, u.now+1))
	u.now += second
	u.apply(put("t", "b", `1`))
	back := u.at(u.now - second)
	_, err := back.try()
	must(t, "a write without operations", err)
	u.now += hour
	_, err = u.h.Registry.Register(t.Context(), u.owner, ext.Schema{Namespace: "s", Document: []byte(`{}`), CreatedAt: u.now}, u.quota)
	wantError(t, "the schema of a second namespace", err, ext.NamespaceQuota(u.quota, 2))
	equal(t, "counters", u.audited(), ext.Counters{Bytes: 3, Keys: 1, Namespaces: 1})
}

func lastPlace(t *testing.T, u *user) {
	for what, q := range map[string]ext.Quota{
		"keys":       {Bytes: 1000, Namespaces: 99, Keys: 5},
		"bytes":      {Bytes: 15, Namespaces: 99, Keys: 99},
		"namespaces": {Bytes: 1000, Namespaces: 5, Keys: 99},
	} {
		u := u.other()
		u.quota = q
		u.apply(expiring("old", "a", `1`, u.now+minute), expiring("s", "b", `1`, u.now+minute))
		u.now += minute
		errs := testdb.Concurrently(parallel, func(i int) error {
			ns := "s"
			if what == "namespaces" {
				ns = fmt.Sprint("n", i)
			}
			_, err := u.try(put(ns, fmt.Sprintf("%02d", i), `1`))
			return err
		})
		got := suite.Winners(t, errs, isQuota)
		equal(t, what+": successful writers", got, 5)
		if err := errors.Join(errs...); err == nil {
			t.Error("no write was refused")
		}
		s := u.state()
		equal(t, what+": records", len(s.records), 5)
	}
}

func lastPlaceByTwoClocks(t *testing.T, u *user) {
	u.quota.Keys = 5
	u.apply(expiring("s", "old", `1`, u.now+minute), expiring("s", "older", `1`, u.now+minute), put("s", "a", `1`))
	fast := u.at(u.now + hour)
	errs := testdb.Concurrently(parallel, func(i int) error {
		_, err := []*user{u, fast}[i%2].try(put("s", fmt.Sprintf("%02d", i), `1`))
		return err
	})
	if got := suite.Winners(t, errs, isQuota); got != 4 {
		t.Errorf("%d writes succeeded where 2 fit by one clock and 4 by the other", got)
	}
	equal(t, "keys by the later clock", fast.audited().Keys, int64(5))
	equal(t, "keys by the earlier clock", u.audited().Keys, int64(7))
	fast.state()
}
