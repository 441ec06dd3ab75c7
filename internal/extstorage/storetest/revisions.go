package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"holdfast/internal/canonjson"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/testdb"
)

func revisionChecks() []check {
	return []check{
		{"WithoutGap", revisionsWithoutGap},
		{"FirstWriters", firstWriters},
		{"LivesUnderConcurrency", livesUnderConcurrency},
		{"Moments", moments},
		{"IncrementByPrecondition", incrementByPrecondition},
		{"MixedBatches", mixedBatches},
	}
}

func revisionsWithoutGap(t *testing.T, u *user) {
	const each = 10
	var mu sync.Mutex
	got := map[ext.Revision]string{}
	seqs := map[ext.Seq]bool{}
	errs := testdb.Concurrently(parallel, func(i int) error {
		var last ext.Item
		for j := range each {
			value := fmt.Sprint(i*1000 + j)
			a, err := u.try(put("settings", "a", value))
			if err != nil {
				return err
			}
			it := a.Items[0]
			mu.Lock()
			if other, twice := got[it.Revision]; twice || seqs[it.Seq] {
				err = fmt.Errorf("revision %d, change %d occur twice (%s and %s)", it.Revision, it.Seq, other, value)
			}
			got[it.Revision], seqs[it.Seq] = value, true
			mu.Unlock()
			if err == nil && (it.Revision <= last.Revision || it.Seq <= last.Seq) {
				err = fmt.Errorf("%+v after %+v", it, last)
			}
			if last = it; err != nil {
				return err
			}
		}
		return nil
	})
	must(t, "writers", errors.Join(errs...))
	const n = parallel * each
	for r := ext.Revision(1); r <= n; r++ {
		if got[r] == "" {
			t.Errorf("no revision %d", r)
		}
	}
	r := u.get("settings", "a")
	equal(t, "revision", r.Revision, ext.Revision(n))
	equal(t, "change", r.Seq, ext.Seq(n))
	equal(t, "value of the last", r.Value, canonjson.Value(got[n]))
	for i, c := range u.changes(0) {
		equal(t, "change", []int64{int64(c.Seq), int64(c.Revision)}, []int64{int64(i + 1), int64(i + 1)})
	}
	u.state()
}

// firstWriters checks that an install's first writes are serialized without a row to lock: of two first puts to a key, one
// gets revision 2.
func firstWriters(t *testing.T, u *user) {
	for range 5 {
		u := u.other()
		seen := make([]ext.Revision, parallel)
		errs := testdb.Concurrently(parallel, func(i int) error {
			a, err := u.try(put("settings", "a", fmt.Sprint(i)), put("settings", fmt.Sprint(i), `1`))
			if err == nil {
				seen[i] = a.Items[0].Revision
			}
			return err
		})
		must(t, "first writers", errors.Join(errs...))
		counts := map[ext.Revision]int{}
		for _, r := range seen {
			counts[r]++
		}
		for r := ext.Revision(1); r <= parallel; r++ {
			equal(t, fmt.Sprintf("writers with revision %d", r), counts[r], 1)
		}
		shared := u.get("settings", "a")
		equal(t, "counters", u.audited(), ext.Counters{Bytes: parallel*3 + shared.Bytes(), Keys: parallel + 1, Namespaces: 1})
		u.state()
	}
}

func livesUnderConcurrency(t *testing.T, u *user) {
	errs := testdb.Concurrently(parallel, func(i int) (err error) {
		for j := 0; j < 8 && err == nil; j++ {
			if (i+j)%3 == 0 {
				_, err = u.try(del("settings", "a"))
			} else {
				_, err = u.try(put("settings", "a", fmt.Sprint(i)))
			}
		}
		return err
	})
	must(t, "puts and deletes", errors.Join(errs...))
	wantLives(t, u)
	u.state()
}

func wantLives(t *testing.T, u *user) {
	t.Helper()
	revisions := map[string]ext.Revision{}
	for i, c := range u.changes(0) {
		if c.Seq != ext.Seq(i+1) {
			t.Fatalf("change %d at the place of %d", c.Seq, i+1)
		}
		id := string(c.Namespace) + "/" + string(c.Key)
		switch was := revisions[id]; {
		case c.Op == ext.ChangePut && (c.Revision == was+1 || c.Revision == 1):
			revisions[id] = c.Revision
		case c.Op != ext.ChangePut && c.Revision == was && was > 0:
			revisions[id] = 0
		default:
			t.Errorf("%s has %+v after revision %d", id, c, was)
		}
	}
	for id, r := range revisions {
		var ns, key string
		for i := range id {
			if id[i] == '/' {
				ns, key = id[:i], id[i+1:]
				break
			}
		}
		if r == 0 {
			u.wantGone(ns, key)
			continue
		}
		if rec, err := u.h.Store.Get(t.Context(), u.owner, ext.Namespace(ns), ext.Key(key), u.now); err == nil {
			equal(t, "last revision of "+id, rec.Revision, r)
		}
	}
}

func moments(t *testing.T, u *user) {
	made := u.now
	it := u.do(put("settings", "a", `1`))
	equal(t, "made", []ext.Moment{it.CreatedAt, it.UpdatedAt}, []ext.Moment{made, made})
	u.now += hour + 7
	it = u.do(put("settings", "a", `2`))
	equal(t, "changed", []ext.Moment{it.CreatedAt, it.UpdatedAt}, []ext.Moment{made, u.now})
	r := u.get("settings", "a")
	equal(t, "kept", []ext.Moment{r.CreatedAt, r.UpdatedAt, r.ExpiresAt}, []ext.Moment{made, u.now, 0})
	u.now = made - hour
	it = u.do(put("settings", "a", `3`))
	equal(t, "changed after the clock was set back", []ext.Moment{it.CreatedAt, it.UpdatedAt}, []ext.Moment{made, u.now})
	equal(t, "revision", it.Revision, ext.Revision(3))
}

func incrementByPrecondition(t *testing.T, u *user) {
	u.apply(put("settings", "n", `0`))
	const each = 5
	errs := testdb.Concurrently(parallel, func(int) error {
		for done := 0; done < each; {
			r, err := u.h.Store.Get(t.Context(), u.owner, "settings", "n", u.now)
			if err != nil {
				return err
			}
			sum, _, err := (&canonjson.Increment{By: "1"}).Apply(r.Value, ext.MaxValueBytes)
			if err != nil {
				return err
			}
			op := guarded(put("settings", "n", string(sum)), ifMatch(r.Seq))
			op.Keep = true
			switch _, err = u.try(op); {
			case err == nil:
				done++
			case !isMismatch(err):
				return err
			}
		}
		return nil
	})
	must(t, "counting", errors.Join(errs...))
	equal(t, "count", u.get("settings", "n").Value, canonjson.Value(fmt.Sprint(parallel*each)))
}

func mixedBatches(t *testing.T, u *user) {
	keys := []string{"a", "b", "c", "d", "e"}
	errs := testdb.Concurrently(parallel, func(i int) (err error) {
		for j := 0; j < 6 && err == nil; j++ {
			at := u.at(u.now + ext.Moment(j)*minute)
			var ops []ext.Op
			for k := range keys {
				ns, key := []string{"x", "y"}[(i+k)%2], keys[(k*(1+i%4)+j)%len(keys)]
				switch (i + j + k) % 4 {
				case 0:
					ops = append(ops, del(ns, key))
				case 1:
					ops = append(ops, expiring(ns, key, `"mortal"`, at.now+minute))
				default:
					ops = append(ops, put(ns, key, fmt.Sprint(i*100+j)))
				}
			}
			if i%5 == 0 {
				at.quota.Bytes = 0
			}
			if _, err = at.try(ops...); i%5 == 0 && isQuota(err) {
				err = nil
			}
		}
		return err
	})
	must(t, "batches", errors.Join(errs...))
	u.now += hour
	wantLives(t, u)
	u.state()
}
