package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	ss "holdfast/internal/syncstorage"
	"holdfast/internal/testdb"
)

func quotaChecks() []check {
	return []check{
		{"Table", quotaTable},
		{"SumOverCollections", quotaSum},
		{"OfACollection", quotaOfACollection},
		{"Shrinking", quotaShrinking},
		{"ShrinkingByBatch", quotaShrinkingByBatch},
		{"Staged", quotaStaged},
		{"StagedOverStored", quotaStagedOverStored},
		{"Commit", quotaCommit},
		{"ExpiredIsNotUsed", quotaExpired},
		{"ExpiredIsNotUsedByBatch", quotaExpiredByBatch},
		{"Used", quotaUsed},
		{"EdgeOfTheQuota", quotaEdge},
	}
}

func (u *user) limited(collection string, limit int64) ss.Write {
	w := u.write(collection)
	w.Quota = ss.Quota{User: limit, Enforce: true}
	return w
}

func (u *user) limitedEach(collection string, limit int64) ss.Write {
	w := u.write(collection)
	w.Quota = ss.Quota{Collection: limit, Enforce: true}
	return w
}

func xs(n int64) string { return strings.Repeat("x", int(n)) }

func quotaTable(t *testing.T, u *user) {
	for i, tc := range QuotaCases() {
		for j, way := range []string{"Put", "Post", "Append", "Commit"} {
			if !u.h.Apart || i%4 == j {
				quotaCase(t, u.other(), &tc, way, true)
				quotaCase(t, u.other(), &tc, way, false)
			}
		}
	}
}

func quotaCase(t *testing.T, u *user, tc *QuotaCase, way string, enforce bool) {
	name := fmt.Sprintf("%s by %s, enforced %v", tc.Name, way, enforce)
	if tc.Others > 0 {
		u.put("tabs", bso("other", xs(tc.Others)))
	}
	u.put("bookmarks", bso("a", xs(tc.Before)))
	before := u.state()
	w := u.write("bookmarks")
	w.Quota = tc.Quota(enforce)
	written, err := u.storeBy(t.Context(), way, w, bso("a", xs(tc.After)))
	if tc.Exceeded && enforce {
		wantError(t, name, err, ss.ErrQuota)
		u.wantState(name, before)
		return
	}
	wantError(t, name, err, nil)
	if way == "Append" {
		u.wantState(name, before)
		return
	}
	u.wantUsage(name, "bookmarks", 1, tc.After)
	if w.Quota.Limited() {
		equal(t, name+": Used", written.Used, tc.Used(tc.After))
	}
}

func (u *user) storeBy(ctx context.Context, way string, w ss.Write, update ss.Update) (ss.Written, error) {
	updates := []ss.Update{update}
	switch way {
	case "Put":
		return u.store.Put(ctx, u.owner, w, update)
	case "Post":
		return u.store.Post(ctx, u.owner, w, updates)
	case "Append":
		return u.store.Append(ctx, u.owner, w, ss.BatchPart{ID: u.stage("bookmarks"), Updates: updates, Limits: limits()})
	default:
		return u.store.Commit(ctx, u.owner, w, ss.BatchPart{ID: u.stage("bookmarks"), Updates: updates, Limits: limits()})
	}
}

func quotaSum(t *testing.T, u *user) {
	u.put("bookmarks", bso("a", xs(40)))
	u.put("tabs", bso("a", xs(50)))
	_, err := u.store.Put(t.Context(), u.owner, u.limited("forms", 100), bso("a", xs(11)))
	wantError(t, "a byte too much", err, ss.ErrQuota)
	equal(t, "collections", len(u.state().collections), 2)
	w, err := u.store.Put(t.Context(), u.owner, u.limited("forms", 100), bso("a", xs(10)))
	must(t, "exactly the quota", err)
	equal(t, "Used", w.Used.User, 100)
	v := u.other()
	_, err = v.store.Put(t.Context(), v.owner, v.limited("forms", 100), bso("a", xs(100)))
	must(t, "another user", err)
}

func quotaOfACollection(t *testing.T, u *user) {
	for _, name := range []string{"bookmarks", "tabs", newName()} {
		w := u.limitedEach(name, 100)
		_, err := u.store.Put(t.Context(), u.owner, w, bso("a", xs(60)))
		must(t, "Put in "+name, err)
		_, err = u.store.Put(t.Context(), u.owner, w, bso("b", xs(41)))
		wantError(t, "a byte too much in "+name, err, ss.ErrQuota)
		b := newBatch()
		_, err = u.store.Append(t.Context(), u.owner, w, ss.BatchPart{ID: b, Opens: true, Updates: []ss.Update{expiring("b", xs(30), 10)}, Limits: limits()})
		must(t, "Append in "+name, err)
		_, err = u.store.Append(t.Context(), u.owner, w, ss.BatchPart{ID: b, Updates: []ss.Update{bso("c", xs(11))}, Limits: limits()})
		wantError(t, "Append of a byte too much in "+name, err, ss.ErrQuota)
		_, err = u.store.Commit(t.Context(), u.owner, w, ss.BatchPart{ID: b, Updates: []ss.Update{bso("c", xs(11))}, Limits: limits()})
		wantError(t, "Commit with a byte too much in "+name, err, ss.ErrQuota)
		got, err := u.store.Commit(t.Context(), u.owner, w, ss.BatchPart{ID: b, Updates: []ss.Update{bso("c", xs(10))}, Limits: limits()})
		must(t, "Commit in "+name, err)
		equal(t, "Used in "+name, got.Used.Collection, 100)
	}
	u.wait(11e9)
	got, err := u.store.Put(t.Context(), u.owner, u.limitedEach("tabs", 100), bso("d", xs(30)))
	must(t, "Put over an expired record", err)
	if got.Used.Collection < 100 || got.Used.User < got.Used.Collection {
		t.Errorf("Used is %v", got.Used)
	}
	_, err = u.store.Put(t.Context(), u.owner, u.limitedEach("tabs", 100), bso("e", "x"))
	wantError(t, "Put of a byte more", err, ss.ErrQuota)
}

func quotaShrinking(t *testing.T, u *user) {
	u.post("bookmarks", bso("a", xs(100)), bso("b", xs(100)), bso("c", xs(100)), bso("d", xs(100)))
	w := u.limited("bookmarks", 50)
	_, err := u.store.Post(t.Context(), u.owner, w, []ss.Update{bso("a", xs(50)), bso("b", xs(151))})
	wantError(t, "growing by a byte", err, ss.ErrQuota)
	used := func(step string, want int64) func(ss.Written, error) {
		return func(_ ss.Written, err error) {
			t.Helper()
			must(t, step, err)
			equal(t, "usage after "+step, u.usage().Bytes(), want)
		}
	}
	used("Post", 400)(u.store.Post(t.Context(), u.owner, w, []ss.Update{bso("a", xs(50)), bso("b", xs(150))}))
	used("Put", 350)(u.store.Put(t.Context(), u.owner, w, bso("b", xs(100))))
	used("Put of a ttl", 350)(u.store.Put(t.Context(), u.owner, w, ss.Update{ID: "b", TTL: ss.Some[int64](1_000_000)}))
	used("Put of an empty record", 350)(u.store.Put(t.Context(), u.owner, w, bso("e", "")))
	used("DeleteBSO", 300)(u.store.DeleteBSO(t.Context(), u.owner, w, "a"))
	used("DeleteBSOs", 200)(u.store.DeleteBSOs(t.Context(), u.owner, w, []string{"b"}))
	used("DeleteCollection", 0)(u.store.DeleteCollection(t.Context(), u.owner, w))
}

func quotaShrinkingByBatch(t *testing.T, u *user) {
	u.post("bookmarks", bso("a", xs(100)), bso("b", xs(100)))
	w := u.limited("bookmarks", 50)
	b := u.stage("bookmarks")
	_, err := u.store.Append(t.Context(), u.owner, w, ss.BatchPart{ID: b, Updates: []ss.Update{bso("a", xs(80))}, Limits: limits()})
	must(t, "Append of less", err)
	_, err = u.store.Append(t.Context(), u.owner, w, ss.BatchPart{ID: b, Updates: []ss.Update{bso("a", xs(81))}, Limits: limits()})
	wantError(t, "Append of more than the last", err, ss.ErrQuota)
	_, err = u.store.Append(t.Context(), u.owner, w, ss.BatchPart{ID: b, Updates: []ss.Update{bso("b", xs(70))}, Limits: limits()})
	must(t, "Append of another", err)
	got, err := u.store.Commit(t.Context(), u.owner, w, ss.BatchPart{ID: b, Updates: []ss.Update{bso("b", xs(60))}, Limits: limits()})
	must(t, "Commit", err)
	equal(t, "Used", got.Used.User, 140)
	u.wantUsage("Commit", "bookmarks", 2, 140)
}

func quotaStaged(t *testing.T, u *user) {
	u.put("tabs", bso("a", xs(40)))
	w := u.limited("bookmarks", 100)
	b := newBatch()
	_, err := u.store.Append(t.Context(), u.owner, w, ss.BatchPart{ID: b, Opens: true, Updates: []ss.Update{bso("a", xs(61))}, Limits: limits()})
	wantError(t, "Append with create", err, ss.ErrQuota)
	_, err = u.store.Append(t.Context(), u.owner, w, ss.BatchPart{ID: b, Limits: limits()})
	wantError(t, "Append to a batch that was not opened", err, ss.ErrNoBatch)
	got, err := u.store.Append(t.Context(), u.owner, w, ss.BatchPart{ID: b, Opens: true, Updates: []ss.Update{bso("a", xs(30))}, Limits: limits()})
	must(t, "Append with create", err)
	equal(t, "Used", got.Used.User, 70)
	_, err = u.store.Append(t.Context(), u.owner, w, ss.BatchPart{ID: b, Updates: []ss.Update{bso("b", xs(1)), bso("c", xs(30))}, Limits: limits()})
	wantError(t, "Append", err, ss.ErrQuota)
	got, err = u.store.Append(t.Context(), u.owner, w, ss.BatchPart{ID: b, Updates: []ss.Update{bso("c", xs(30))}, Limits: limits()})
	must(t, "Append that fits exactly", err)
	equal(t, "Used", got.Used.User, 100)
	got, err = u.store.Append(t.Context(), u.owner, w, ss.BatchPart{ID: b, Updates: []ss.Update{bso("a", xs(20)), bso("d", xs(10))}, Limits: limits()})
	must(t, "Append over a staged record", err)
	equal(t, "Used", got.Used.User, 100)
	got, err = u.store.Commit(t.Context(), u.owner, w, ss.BatchPart{ID: b, Limits: limits()})
	must(t, "Commit", err)
	equal(t, "Used", got.Used.User, 100)
	u.wantUsage("Commit", "bookmarks", 3, 60)
}

func quotaStagedOverStored(t *testing.T, u *user) {
	u.post("bookmarks", bso("a", xs(90)), bso("b", xs(5)))
	w := u.limited("bookmarks", 100)
	b := u.stage("bookmarks")
	_, err := u.store.Append(t.Context(), u.owner, w, ss.BatchPart{ID: b, Updates: []ss.Update{bso("a", xs(96))}, Limits: limits()})
	wantError(t, "Append of a byte too much", err, ss.ErrQuota)
	_, err = u.store.Append(t.Context(), u.owner, w, ss.BatchPart{ID: b, Updates: []ss.Update{bso("a", xs(95))}, Limits: limits()})
	must(t, "Append over a stored record", err)
	_, err = u.store.Append(t.Context(), u.owner, w, ss.BatchPart{ID: b, Updates: []ss.Update{{ID: "b", SortIndex: ss.Some[int64](1)}}, Limits: limits()})
	must(t, "Append of a sortindex", err)
	_, err = u.store.Append(t.Context(), u.owner, w, ss.BatchPart{ID: b, Updates: []ss.Update{bso("c", "x")}, Limits: limits()})
	wantError(t, "Append of a byte more", err, ss.ErrQuota)
	got, err := u.store.Commit(t.Context(), u.owner, w, ss.BatchPart{ID: b, Limits: limits()})
	must(t, "Commit", err)
	equal(t, "Used", got.Used.User, 100)
	u.wantUsage("Commit", "bookmarks", 2, 100)
}

func quotaCommit(t *testing.T, u *user) {
	w := u.limited("bookmarks", 100)
	b := newBatch()
	_, err := u.store.Append(t.Context(), u.owner, w, ss.BatchPart{ID: b, Opens: true, Updates: []ss.Update{bso("a", xs(60))}, Limits: limits()})
	must(t, "Append", err)
	u.put("tabs", bso("a", xs(50)))
	before := u.state()
	_, err = u.store.Commit(t.Context(), u.owner, w, ss.BatchPart{ID: b, Limits: limits()})
	wantError(t, "Commit", err, ss.ErrQuota)
	u.wantState("a refused commit", before)
	u.deleteBSO("tabs", "a")
	got, err := u.store.Commit(t.Context(), u.owner, w, ss.BatchPart{ID: b, Limits: limits()})
	must(t, "Commit after a delete", err)
	equal(t, "Used", got.Used.User, 60)
}

func quotaExpired(t *testing.T, u *user) {
	u.post("bookmarks", expiring("a", xs(60), 10), bso("b", xs(30)))
	u.put("tabs", expiring("a", xs(10), 10))
	_, err := u.store.Put(t.Context(), u.owner, u.limited("forms", 100), bso("a", "x"))
	wantError(t, "Put before the expiry", err, ss.ErrQuota)
	u.wait(11e9)
	_, err = u.store.Put(t.Context(), u.owner, u.limited("forms", 100), bso("a", xs(71)))
	wantError(t, "Put of a byte too much", err, ss.ErrQuota)
	_, err = u.store.Put(t.Context(), u.owner, u.limited("forms", 100), bso("a", xs(50)))
	must(t, "Put", err)
	_, err = u.store.Post(t.Context(), u.owner, u.limited("bookmarks", 100), []ss.Update{bso("a", xs(20))})
	must(t, "Post over the expired", err)
	u.wantUsage("Post", "bookmarks", 2, 50)

	// A record replacing an expired record of the same size is new.
	v := u.other()
	v.post("tabs", expiring("a", xs(60), 10), bso("b", xs(90)))
	v.wait(11e9)
	_, err = v.store.Put(t.Context(), v.owner, v.limited("tabs", 100), bso("a", xs(11)))
	wantError(t, "Put of a byte too many over the expired", err, ss.ErrQuota)
	_, err = v.store.Post(t.Context(), v.owner, v.limited("tabs", 100), []ss.Update{bso("a", xs(60))})
	wantError(t, "Post of the same size over the expired", err, ss.ErrQuota)
	_, err = v.store.Commit(t.Context(), v.owner, v.limited("tabs", 100), ss.BatchPart{ID: v.stage("tabs"), Updates: []ss.Update{bso("a", xs(60))}, Limits: limits()})
	wantError(t, "Commit of the same size over the expired", err, ss.ErrQuota)
	_, err = v.store.Put(t.Context(), v.owner, v.limited("tabs", 100), bso("a", xs(10)))
	must(t, "Put over the expired", err)
}

func quotaExpiredByBatch(t *testing.T, u *user) {
	u.put("tabs", expiring("a", xs(100), 10))
	u.wait(11e9)
	b := newBatch()
	_, err := u.store.Append(t.Context(), u.owner, u.limited("tabs", 100), ss.BatchPart{ID: b, Opens: true, Updates: []ss.Update{bso("a", xs(60))}, Limits: limits()})
	must(t, "Append over the expired", err)
	_, err = u.store.Append(t.Context(), u.owner, u.limited("tabs", 100), ss.BatchPart{ID: b, Updates: []ss.Update{bso("b", xs(41))}, Limits: limits()})
	wantError(t, "Append of a byte too much", err, ss.ErrQuota)
	_, err = u.store.Append(t.Context(), u.owner, u.limited("tabs", 100), ss.BatchPart{ID: b, Updates: []ss.Update{bso("b", xs(40))}, Limits: limits()})
	must(t, "Append", err)
	got, err := u.store.Commit(t.Context(), u.owner, u.limited("tabs", 100), ss.BatchPart{ID: b, Limits: limits()})
	must(t, "Commit", err)
	equal(t, "Used", got.Used.User, 100)
}

func quotaUsed(t *testing.T, u *user) {
	u.put("tabs", bso("a", xs(7)))
	w := u.limited("bookmarks", 1000)
	used := func(step string, want int64) func(ss.Written, error) {
		return func(got ss.Written, err error) {
			t.Helper()
			must(t, step, err)
			equal(t, step, got.Used.User, want)
		}
	}
	used("Put", 17)(u.store.Put(t.Context(), u.owner, w, bso("a", xs(10))))
	used("Put over it", 12)(u.store.Put(t.Context(), u.owner, w, bso("a", xs(5))))
	used("Post", 25)(u.store.Post(t.Context(), u.owner, w, []ss.Update{bso("a", xs(8)), bso("b", xs(10))}))
	used("empty Post", 25)(u.store.Post(t.Context(), u.owner, w, nil))
	b := newBatch()
	used("Append", 30)(u.store.Append(t.Context(), u.owner, w, ss.BatchPart{ID: b, Opens: true, Updates: []ss.Update{bso("c", xs(5))}, Limits: limits()}))
	used("Commit", 31)(u.store.Commit(t.Context(), u.owner, w, ss.BatchPart{ID: b, Updates: []ss.Update{bso("d", xs(1))}, Limits: limits()}))
	u.deleteBSOs("bookmarks", "a", "b")
	used("Put after deletes", 13)(u.store.Put(t.Context(), u.owner, w, ss.Update{ID: "d", SortIndex: ss.Some[int64](1)}))
}

func quotaEdge(t *testing.T, u *user) {
	for name, limited := range map[string]func(u *user, collection string, limit int64) ss.Write{
		"quota of the user": (*user).limited, "quota of a collection": (*user).limitedEach,
	} {
		quotaEdgeOf(t, u, name, limited)
	}
}

func quotaEdgeOf(t *testing.T, u *user, limit string, limited func(u *user, collection string, limit int64) ss.Write) {
	const many = "Put in many collections"
	for name, write := range map[string]func(u *user, i int) error{
		"Put": func(u *user, i int) error {
			_, err := u.store.Put(t.Context(), u.owner, limited(u, "bookmarks", 100), bso(fmt.Sprint(i), xs(60)))
			return err
		},
		many: func(u *user, i int) error {
			name := ss.StandardCollections()[i].Name
			_, err := u.store.Put(t.Context(), u.owner, limited(u, name, 100), bso("a", xs(60)))
			return err
		},
		"Append": func(u *user, i int) error {
			_, err := u.store.Append(t.Context(), u.owner, limited(u, "bookmarks", 100), ss.BatchPart{ID: sharedBatch, Updates: []ss.Update{bso(fmt.Sprint(i), xs(60))}, Limits: limits()})
			return err
		},
	} {
		u := u.other()
		_, err := u.store.Append(t.Context(), u.owner, u.write("bookmarks"), ss.BatchPart{ID: sharedBatch, Opens: true, Limits: limits()})
		must(t, "Append", err)
		won := 0
		for _, err := range testdb.Concurrently(8, func(i int) error { return write(u, i) }) {
			if err == nil {
				won++
				continue
			}
			wantError(t, limit+", "+name, err, ss.ErrQuota)
		}
		want := 1
		if name == many && limited(u, "bookmarks", 1).Quota.User == 0 {
			want = 8
		}
		equal(t, limit+", "+name+": successful writers", won, want)
		u.commit("bookmarks", sharedBatch)
		equal(t, limit+", "+name+": bytes", u.usage().Bytes(), int64(60*want))
	}
}

const sharedBatch ss.BatchID = "0123456789abcdef0123456789abcdef"
