package storetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
)

func ownQuotaChecks() []check {
	return []check{
		{"FromTheFirstWrite", ownQuotaFromTheFirstWrite},
		{"ByEveryWrite", ownQuotaByEveryWrite},
		{"NoLimit", ownQuotaNoLimit},
		{"TakenAway", ownQuotaTakenAway},
		{"WhereNobodyCounts", ownQuotaWhereNobodyCounts},
		{"BesideTheCollections", ownQuotaBesideTheCollections},
		{"OutlivesAWipe", ownQuotaOutlivesAWipe},
		{"Negative", ownQuotaNegative},
		{"WritersAtOnce", ownQuotaWritersAtOnce},
	}
}

func (u *user) counted(collection string, limit int64) ss.Write {
	w := u.limited(collection, limit)
	w.Quota.Own = true
	return w
}

func (u *user) setQuota(bytes ss.Optional[int64]) {
	u.t.Helper()
	must(u.t, "SetQuota", u.store.SetQuota(u.t.Context(), u.owner, bytes))
}

func ownQuotaFromTheFirstWrite(t *testing.T, u *user) {
	u.setQuota(ss.Some[int64](30))
	u.wantState("SetQuota", state{collections: map[string]collectionState{}})
	equal(t, "the quota", u.usage().Quota, ss.Some[int64](30))
	_, err := u.store.Put(t.Context(), u.owner, u.counted("bookmarks", 100), bso("a", xs(31)))
	wantError(t, "a byte too many", err, ss.ErrQuota)
	w, err := u.store.Put(t.Context(), u.owner, u.counted("bookmarks", 100), bso("a", xs(30)))
	must(t, "exactly the quota", err)
	equal(t, "the quota", w.Quota.User, 30)
	equal(t, "what is left", w.Quota.Remaining(w.Used), ss.Some[int64](0))
	v := u.other()
	w, err = v.store.Put(t.Context(), v.owner, v.counted("bookmarks", 100), bso("a", xs(100)))
	must(t, "another user", err)
	equal(t, "another user's quota", w.Quota.User, 100)
	equal(t, "another user's own quota", v.usage().Quota, ss.Optional[int64]{})
}

func ownQuotaByEveryWrite(t *testing.T, u *user) {
	for _, way := range []string{"Put", "Post", "Append", "Commit"} {
		for _, servers := range []int64{0, 10, 500} {
			u := u.other()
			u.put("tabs", bso("other", xs(60)))
			u.setQuota(ss.Some[int64](100))
			_, err := u.storeBy(t.Context(), way, u.counted("bookmarks", servers), bso("a", xs(41)))
			wantError(t, way+" over it", err, ss.ErrQuota)
			w, err := u.storeBy(t.Context(), way, u.counted("bookmarks", servers), bso("a", xs(40)))
			must(t, way+" up to it", err)
			equal(t, way+": the quota", w.Quota, ss.Quota{User: 100, Enforce: true, Own: true})
			equal(t, way+": Used", w.Used, ss.Used{Collection: 40, User: 100})
		}
	}
}

func ownQuotaNoLimit(t *testing.T, u *user) {
	u.setQuota(ss.Some[int64](0))
	for _, way := range []string{"Put", "Post", "Append", "Commit"} {
		w, err := u.storeBy(t.Context(), way, u.counted("bookmarks", 10), bso("a", xs(50)))
		must(t, way, err)
		equal(t, way+": what is left", w.Quota.Remaining(w.Used), ss.Optional[int64]{})
	}
}

func ownQuotaTakenAway(t *testing.T, u *user) {
	u.setQuota(ss.Optional[int64]{})
	u.wantState("removing a quota that is not set", state{collections: map[string]collectionState{}})
	u.setQuota(ss.Some[int64](200))
	u.put("bookmarks", bso("a", xs(150)))
	u.setQuota(ss.Some[int64](160))
	before := u.state()
	u.setQuota(ss.Optional[int64]{})
	u.wantState("SetQuota", before)
	equal(t, "the quota", u.usage().Quota, ss.Optional[int64]{})
	_, err := u.store.Put(t.Context(), u.owner, u.counted("bookmarks", 100), bso("b", "x"))
	wantError(t, "over the server's quota", err, ss.ErrQuota)
}

func ownQuotaWhereNobodyCounts(t *testing.T, u *user) {
	u.setQuota(ss.Some[int64](10))
	w := u.put("bookmarks", bso("a", xs(50)))
	equal(t, "the quota", w.Quota, ss.Quota{})
}

func ownQuotaBesideTheCollections(t *testing.T, u *user) {
	u.setQuota(ss.Some[int64](100))
	w := u.counted("bookmarks", 10)
	w.Quota.Collection = 40
	_, err := u.store.Put(t.Context(), u.owner, w, bso("a", xs(41)))
	wantError(t, "over the limit of the collection", err, ss.ErrQuota)
	got, err := u.store.Put(t.Context(), u.owner, w, bso("a", xs(40)))
	must(t, "up to it", err)
	equal(t, "what is left", got.Quota.Remaining(got.Used), ss.Some[int64](0))
}

func ownQuotaOutlivesAWipe(t *testing.T, u *user) {
	u.setQuota(ss.Some[int64](30))
	u.put("bookmarks", bso("a", "x"))
	u.deleteCollection("bookmarks")
	u.deleteAll()
	u.wantState("DeleteAll", state{collections: map[string]collectionState{}})
	equal(t, "the quota", u.usage().Quota, ss.Some[int64](30))
	_, err := u.store.Put(t.Context(), u.owner, u.counted("bookmarks", 100), bso("a", xs(31)))
	wantError(t, "a byte too many", err, ss.ErrQuota)
	u.put(newName(), bso("a", "x"))
	u.deleteAll()
	equal(t, "the quota after another DeleteAll", u.usage().Quota, ss.Some[int64](30))
}

func ownQuotaNegative(t *testing.T, u *user) {
	wantCode(t, "SetQuota", u.store.SetQuota(t.Context(), u.owner, ss.Some[int64](-1)), errcode.Invalid)
	equal(t, "the quota", u.usage().Quota, ss.Optional[int64]{})
}

func ownQuotaWritersAtOnce(t *testing.T, u *user) {
	u.setQuota(ss.Some[int64](50))
	var wg sync.WaitGroup
	var fit atomic.Int64
	for i := range 8 {
		wg.Go(func() {
			w := u.counted("bookmarks", 1000)
			_, err := u.store.Put(context.WithoutCancel(t.Context()), u.owner, w, bso(string(rune('a'+i)), xs(10)))
			switch {
			case err == nil:
				fit.Add(1)
			case !errors.Is(err, ss.ErrQuota):
				t.Errorf("Put: %v", err)
			}
		})
	}
	wg.Wait()
	equal(t, "writes that fit", fit.Load(), 5)
	u.wantUsage("writers at once", "bookmarks", 5, 50)
}

func totalsChecks() []check {
	return []check{{"ByTheCounters", totalsByTheCounters}}
}

func totalsByTheCounters(t *testing.T, u *user) {
	a, b, nobody := u.other(), u.other(), u.other()
	none, err := u.store.Totals(t.Context(), nil)
	must(t, "Totals of no owners", err)
	equal(t, "totals of no owners", len(none), 0)
	a.setQuota(ss.Some[int64](0))
	var last ss.Timestamp
	for _, collection := range []string{"bookmarks", "tabs"} {
		w, err := a.store.Put(t.Context(), a.owner, a.counted(collection, 1000), bso("a", xs(20)))
		must(t, "Put", err)
		last = w.Modified
	}
	b.put("bookmarks", bso("a", "xyz"))
	b.setQuota(ss.Some[int64](77))
	b.deleteCollection("bookmarks")
	totals, err := u.store.Totals(t.Context(), []ss.Owner{b.owner, nobody.owner, a.owner})
	must(t, "Totals", err)
	equal(t, "totals", len(totals), 3)
	equal(t, "the total after DeleteAll", totals[0], ss.Total{Modified: b.collections().Modified, Counted: true, Quota: ss.Some[int64](77)})
	equal(t, "the total of an unknown user", totals[1], ss.Total{Counted: true})
	equal(t, "the total of a user with records", totals[2], ss.Total{Modified: last, Records: 2, Bytes: 40, Counted: true, Quota: ss.Some[int64](0)})
	b.put("tabs", bso("a", "xyz"))
	totals, err = u.store.Totals(t.Context(), []ss.Owner{b.owner})
	must(t, "Totals", err)
	if got := totals[0]; got.Counted && (got.Records != 1 || got.Bytes != 3) || !got.Counted && got.Records+got.Bytes > 0 || got.Modified != b.collections().Modified {
		t.Errorf("without a quota %+v", got)
	}
}
