package storetest

import (
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

// limited is the frame of a write under an enforced quota.
func (u *user) limited(collection string, limit int64) ss.Write {
	w := u.write(collection)
	w.Quota = ss.Quota{Limit: limit, Enforce: true}
	return w
}

func xs(n int64) string { return strings.Repeat("x", int(n)) }

// quotaTable runs the root's table on every write that stores: enforced, it
// refuses and leaves no trace; reported, it writes. Either way Used is told
// where there is a limit.
func quotaTable(t *testing.T, u *user) {
	for _, tc := range QuotaCases() {
		for _, enforce := range []bool{true, false} {
			for _, way := range []string{"Put", "Post", "Commit"} {
				name := fmt.Sprintf("%s by %s, enforced %v", tc.Name, way, enforce)
				u := u.other()
				u.put("bookmarks", bso("a", xs(tc.Before)))
				before := u.state()
				w := u.write("bookmarks")
				w.Quota = ss.Quota{Limit: tc.Limit, Enforce: enforce}
				b := u.stage("bookmarks")
				after := []ss.Update{bso("a", xs(tc.After))}
				var written ss.Written
				var err error
				switch way {
				case "Put":
					written, err = u.store.Put(t.Context(), u.owner, w, after[0])
				case "Post":
					written, err = u.store.Post(t.Context(), u.owner, w, after)
				case "Commit":
					written, err = u.store.Commit(t.Context(), u.owner, w, b, after, limits())
				}
				if tc.Exceeded && enforce {
					wantError(t, name, err, ss.ErrQuota)
					u.wantState(name, before)
					continue
				}
				wantError(t, name, err, nil)
				u.wantUsage(name, "bookmarks", 1, tc.After)
				if tc.Limit > 0 {
					equal(t, name+": Used", written.Used, tc.After)
				}
			}
		}
	}
}

// quotaSum: the quota is the user's, over all collections.
func quotaSum(t *testing.T, u *user) {
	u.put("bookmarks", bso("a", xs(40)))
	u.put("tabs", bso("a", xs(50)))
	_, err := u.store.Put(t.Context(), u.owner, u.limited("forms", 100), bso("a", xs(11)))
	wantError(t, "a byte too much", err, ss.ErrQuota)
	equal(t, "collections", len(u.state().shelves), 2)
	w, err := u.store.Put(t.Context(), u.owner, u.limited("forms", 100), bso("a", xs(10)))
	must(t, "exactly the quota", err)
	equal(t, "Used", w.Used, 100)
	v := u.other()
	_, err = v.store.Put(t.Context(), v.owner, v.limited("forms", 100), bso("a", xs(100)))
	must(t, "another user", err)
}

// quotaShrinking: who is over the limit, because it was lowered, can still
// write what does not grow, and delete.
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

// quotaShrinkingByBatch: the same for a batch, which is how a browser writes.
func quotaShrinkingByBatch(t *testing.T, u *user) {
	u.post("bookmarks", bso("a", xs(100)), bso("b", xs(100)))
	w := u.limited("bookmarks", 50)
	b := u.stage("bookmarks")
	_, err := u.store.Append(t.Context(), u.owner, w, b, false, []ss.Update{bso("a", xs(80))}, limits())
	must(t, "Append of less", err)
	_, err = u.store.Append(t.Context(), u.owner, w, b, false, []ss.Update{bso("a", xs(81))}, limits())
	wantError(t, "Append of more than the last", err, ss.ErrQuota)
	_, err = u.store.Append(t.Context(), u.owner, w, b, false, []ss.Update{bso("b", xs(70))}, limits())
	must(t, "Append of another", err)
	got, err := u.store.Commit(t.Context(), u.owner, w, b, []ss.Update{bso("b", xs(60))}, limits())
	must(t, "Commit", err)
	equal(t, "Used", got.Used, 140)
	u.wantUsage("Commit", "bookmarks", 2, 140)
}

// quotaStaged: what is staged counts beside what is stored, and a refused
// append stages nothing.
func quotaStaged(t *testing.T, u *user) {
	u.put("tabs", bso("a", xs(40)))
	w := u.limited("bookmarks", 100)
	b := newBatch()
	_, err := u.store.Append(t.Context(), u.owner, w, b, true, []ss.Update{bso("a", xs(61))}, limits())
	wantError(t, "Append with create", err, ss.ErrQuota)
	_, err = u.store.Append(t.Context(), u.owner, w, b, false, nil, limits())
	wantError(t, "Append to what was not opened", err, ss.ErrNoBatch)
	got, err := u.store.Append(t.Context(), u.owner, w, b, true, []ss.Update{bso("a", xs(30))}, limits())
	must(t, "Append with create", err)
	equal(t, "Used", got.Used, 70)
	_, err = u.store.Append(t.Context(), u.owner, w, b, false, []ss.Update{bso("b", xs(1)), bso("c", xs(30))}, limits())
	wantError(t, "Append", err, ss.ErrQuota)
	got, err = u.store.Append(t.Context(), u.owner, w, b, false, []ss.Update{bso("c", xs(30))}, limits())
	must(t, "Append of what fits exactly", err)
	equal(t, "Used", got.Used, 100)
	got, err = u.store.Append(t.Context(), u.owner, w, b, false, []ss.Update{bso("a", xs(20)), bso("d", xs(10))}, limits())
	must(t, "Append over what is staged", err)
	equal(t, "Used", got.Used, 100)
	got, err = u.store.Commit(t.Context(), u.owner, w, b, nil, limits())
	must(t, "Commit", err)
	equal(t, "Used", got.Used, 100)
	u.wantUsage("Commit", "bookmarks", 3, 60)
}

// quotaStagedOverStored: what a staged record will replace does not count
// beside it when that decides.
func quotaStagedOverStored(t *testing.T, u *user) {
	u.post("bookmarks", bso("a", xs(90)), bso("b", xs(5)))
	w := u.limited("bookmarks", 100)
	b := u.stage("bookmarks")
	_, err := u.store.Append(t.Context(), u.owner, w, b, false, []ss.Update{bso("a", xs(96))}, limits())
	wantError(t, "Append of a byte too much", err, ss.ErrQuota)
	_, err = u.store.Append(t.Context(), u.owner, w, b, false, []ss.Update{bso("a", xs(95))}, limits())
	must(t, "Append over what is stored", err)
	_, err = u.store.Append(t.Context(), u.owner, w, b, false, []ss.Update{{ID: "b", SortIndex: ss.Some[int64](1)}}, limits())
	must(t, "Append of a sortindex", err)
	_, err = u.store.Append(t.Context(), u.owner, w, b, false, []ss.Update{bso("c", "x")}, limits())
	wantError(t, "Append of a byte more", err, ss.ErrQuota)
	got, err := u.store.Commit(t.Context(), u.owner, w, b, nil, limits())
	must(t, "Commit", err)
	equal(t, "Used", got.Used, 100)
	u.wantUsage("Commit", "bookmarks", 2, 100)
}

// quotaCommit: the commit judges by what is there then, and a refused one
// leaves the batch open.
func quotaCommit(t *testing.T, u *user) {
	w := u.limited("bookmarks", 100)
	b := newBatch()
	_, err := u.store.Append(t.Context(), u.owner, w, b, true, []ss.Update{bso("a", xs(60))}, limits())
	must(t, "Append", err)
	u.put("tabs", bso("a", xs(50)))
	before := u.state()
	_, err = u.store.Commit(t.Context(), u.owner, w, b, nil, limits())
	wantError(t, "Commit", err, ss.ErrQuota)
	u.wantState("a refused commit", before)
	u.deleteBSO("tabs", "a")
	got, err := u.store.Commit(t.Context(), u.owner, w, b, nil, limits())
	must(t, "Commit after a delete", err)
	equal(t, "Used", got.Used, 60)
}

// quotaExpired: what has expired is not held against the user, swept or not.
func quotaExpired(t *testing.T, u *user) {
	u.post("bookmarks", mortal("a", xs(60), 10), bso("b", xs(30)))
	u.put("tabs", mortal("a", xs(10), 10))
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

	// A row that takes no more room than the expired one in its place is new
	// to the quota all the same.
	v := u.other()
	v.post("tabs", mortal("a", xs(60), 10), bso("b", xs(90)))
	v.wait(11e9)
	_, err = v.store.Put(t.Context(), v.owner, v.limited("tabs", 100), bso("a", xs(11)))
	wantError(t, "Put over the expired of a byte too much", err, ss.ErrQuota)
	_, err = v.store.Post(t.Context(), v.owner, v.limited("tabs", 100), []ss.Update{bso("a", xs(60))})
	wantError(t, "Post over the expired of as much", err, ss.ErrQuota)
	_, err = v.store.Commit(t.Context(), v.owner, v.limited("tabs", 100), v.stage("tabs"), []ss.Update{bso("a", xs(60))}, limits())
	wantError(t, "Commit over the expired of as much", err, ss.ErrQuota)
	_, err = v.store.Put(t.Context(), v.owner, v.limited("tabs", 100), bso("a", xs(10)))
	must(t, "Put over the expired", err)
}

// quotaExpiredByBatch is quotaExpired for what is staged.
func quotaExpiredByBatch(t *testing.T, u *user) {
	u.put("tabs", mortal("a", xs(100), 10))
	u.wait(11e9)
	b := newBatch()
	_, err := u.store.Append(t.Context(), u.owner, u.limited("tabs", 100), b, true, []ss.Update{bso("a", xs(60))}, limits())
	must(t, "Append over the expired", err)
	_, err = u.store.Append(t.Context(), u.owner, u.limited("tabs", 100), b, false, []ss.Update{bso("b", xs(41))}, limits())
	wantError(t, "Append of a byte too much", err, ss.ErrQuota)
	_, err = u.store.Append(t.Context(), u.owner, u.limited("tabs", 100), b, false, []ss.Update{bso("b", xs(40))}, limits())
	must(t, "Append", err)
	got, err := u.store.Commit(t.Context(), u.owner, u.limited("tabs", 100), b, nil, limits())
	must(t, "Commit", err)
	equal(t, "Used", got.Used, 100)
}

// quotaUsed: every write that stores tells what the user has after it.
func quotaUsed(t *testing.T, u *user) {
	u.put("tabs", bso("a", xs(7)))
	w := u.limited("bookmarks", 1000)
	used := func(step string, want int64) func(ss.Written, error) {
		return func(got ss.Written, err error) {
			t.Helper()
			must(t, step, err)
			equal(t, step, got.Used, want)
		}
	}
	used("Put", 17)(u.store.Put(t.Context(), u.owner, w, bso("a", xs(10))))
	used("Put over it", 12)(u.store.Put(t.Context(), u.owner, w, bso("a", xs(5))))
	used("Post", 25)(u.store.Post(t.Context(), u.owner, w, []ss.Update{bso("a", xs(8)), bso("b", xs(10))}))
	used("empty Post", 25)(u.store.Post(t.Context(), u.owner, w, nil))
	b := newBatch()
	used("Append", 30)(u.store.Append(t.Context(), u.owner, w, b, true, []ss.Update{bso("c", xs(5))}, limits()))
	used("Commit", 31)(u.store.Commit(t.Context(), u.owner, w, b, []ss.Update{bso("d", xs(1))}, limits()))
	u.deleteBSOs("bookmarks", "a", "b")
	used("Put after deletes", 13)(u.store.Put(t.Context(), u.owner, w, ss.Update{ID: "d", SortIndex: ss.Some[int64](1)}))
}

// quotaEdge: of many writers who would each just fit, one gets in.
func quotaEdge(t *testing.T, u *user) {
	for name, write := range map[string]func(u *user, i int) error{
		"Put": func(u *user, i int) error {
			_, err := u.store.Put(t.Context(), u.owner, u.limited("bookmarks", 100), bso(fmt.Sprint(i), xs(60)))
			return err
		},
		"Put in many collections": func(u *user, i int) error {
			name := ss.StandardCollections()[i].Name
			_, err := u.store.Put(t.Context(), u.owner, u.limited(name, 100), bso("a", xs(60)))
			return err
		},
		"Append": func(u *user, i int) error {
			_, err := u.store.Append(t.Context(), u.owner, u.limited("bookmarks", 100), sharedBatch, false, []ss.Update{bso(fmt.Sprint(i), xs(60))}, limits())
			return err
		},
	} {
		u := u.other()
		_, err := u.store.Append(t.Context(), u.owner, u.write("bookmarks"), sharedBatch, true, nil, limits())
		must(t, "Append", err)
		won := 0
		for _, err := range testdb.Together(8, func(i int) error { return write(u, i) }) {
			if err == nil {
				won++
				continue
			}
			wantError(t, name, err, ss.ErrQuota)
		}
		equal(t, name+": writers that got in", won, 1)
		u.commit("bookmarks", sharedBatch)
		equal(t, name+": bytes", u.usage().Bytes(), 60)
	}
}

// sharedBatch is the same id in the hands of several users, each of whom has a
// batch of that name.
const sharedBatch ss.BatchID = "0123456789abcdef0123456789abcdef"
