package spanner_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/spanner"

	"holdfast/internal/db/spannerdb"
	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/testdb"
)

// sums are a collection's counters and their correct values.
type sums struct {
	collection   int64
	count, bytes spanner.NullInt64
	rows, size   int64
}

// counted reads the counters of a user's collections and counts their rows.
func counted(t testing.TB, db *spannerdb.DB, o ss.Owner) (all []sums) {
	t.Helper()
	err := db.ForEach(t.Context(), spannerdb.Statement{Name: "test", SQL: `
		SELECT c.collection_id, c.count, c.total_bytes, COUNT(b.bso_id), IFNULL(SUM(BYTE_LENGTH(b.payload)), 0)
		FROM user_collections c
		LEFT JOIN bsos b ON b.fxa_uid = c.fxa_uid AND b.fxa_kid = c.fxa_kid AND b.collection_id = c.collection_id
		WHERE c.fxa_uid = @uid AND c.fxa_kid = @kid AND c.collection_id != 0
		GROUP BY c.collection_id, c.count, c.total_bytes ORDER BY c.collection_id`},
		spannerdb.Params{"uid": o.FxAUID, "kid": o.FxAKID}, func(r *spanner.Row) error {
			var s sums
			err := r.Columns(&s.collection, &s.count, &s.bytes, &s.rows, &s.size)
			all = append(all, s)
			return err
		})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (s sums) wrong() bool {
	return s.count.Valid != s.bytes.Valid || s.count.Valid && (s.count.Int64 != s.rows || s.bytes.Int64 != s.size)
}

func recounts(calls []*call) (n int) {
	for _, c := range calls {
		if r, ok := c.request.(interface{ GetSql() string }); ok && strings.Contains(r.GetSql(), "GROUP BY c.collection_id") {
			n++
		}
	}
	return n
}

// TestReapedCounters checks that counters that still count expired records removed by Spanner cause no error and are
// corrected.
func TestReapedCounters(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(s *tapped, o ss.Owner, q ss.Quota, us []ss.Update) (ss.Written, error){
		"Put": func(s *tapped, o ss.Owner, q ss.Quota, us []ss.Update) (ss.Written, error) {
			return s.Put(t.Context(), o, to("tabs", 100, q), us[0])
		},
		"Post": func(s *tapped, o ss.Owner, q ss.Quota, us []ss.Update) (ss.Written, error) {
			return s.Post(t.Context(), o, to("tabs", 100, q), us)
		},
		"Commit": func(s *tapped, o ss.Owner, q ss.Quota, us []ss.Update) (ss.Written, error) {
			if w, err := s.Append(t.Context(), o, to("tabs", 100, q), ss.BatchPart{ID: "b", Opens: true, Updates: us, Limits: wide}); err != nil || w.Used.User != 40 {
				return w, fmt.Errorf("append: %v used, %w", w.Used, err)
			}
			return s.Commit(t.Context(), o, to("tabs", 101, q), ss.BatchPart{ID: "b", Limits: wide})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, o, q := newTapped(t, nil), user("a"), ss.Quota{User: 100, Enforce: true}
			fillAndReap(t, s, o, q)
			s.clear()
			w, err := write(s, o, q, []ss.Update{update("new", strings.Repeat("y", 40))})
			if err != nil || w.Used.User != 40 {
				t.Errorf("%v used, %v", w.Used, err)
			}
			if n := recounts(s.wire.taken()); n != 1 {
				t.Errorf("counted %d times", n)
			}
			checkCounted(t, s, o)
			if _, err := s.Put(t.Context(), o, to("tabs", 102, q), update("more", strings.Repeat("z", 61))); !errcode.Is(err, errcode.Quota) {
				t.Errorf("a byte too many: %v", err)
			}
			if w, err := s.Put(t.Context(), o, to("tabs", 103, q), update("more", strings.Repeat("z", 60))); err != nil || w.Used.User != 100 {
				t.Errorf("the rest of the quota: %v used, %v", w.Used, err)
			}
		})
	}
}

// fillAndReap creates two collections without records and with counters of 45 bytes each.
func fillAndReap(t *testing.T, s *tapped, o ss.Owner, q ss.Quota) {
	t.Helper()
	for i, collection := range []string{"forms", "tabs"} {
		u := ss.Update{ID: "short", Payload: ss.Some([]byte(strings.Repeat("x", 45))), TTL: ss.Some[int64](10)}
		if _, err := s.Put(t.Context(), o, to(collection, i, q), u); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := reap(t.Context(), s.db, at(50)); n != 2 || err != nil {
		t.Fatalf("%d records reaped, %v", n, err)
	}
	if got := counted(t, s.db, o); len(got) != 2 || !got[0].wrong() || !got[1].wrong() {
		t.Fatalf("the counters are right: %v", got)
	}
}

func checkCounted(t *testing.T, s *tapped, o ss.Owner) {
	t.Helper()
	for _, c := range counted(t, s.db, o) {
		if !c.count.Valid || c.wrong() {
			t.Errorf("afterwards the counters are %+v", c)
		}
	}
}

// TestUncountedOnce checks that the first write that needs missing counters sets them in all collections.
func TestUncountedOnce(t *testing.T) {
	t.Parallel()
	s, o := newTapped(t, nil), user("a")
	put := func(i int, collection string, q ss.Quota) ss.Written {
		t.Helper()
		w, err := s.Put(t.Context(), o, to(collection, i, q), update(fmt.Sprint(i), "0123456789"))
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	for i, collection := range []string{"forms", "tabs", "history"} {
		put(i, collection, ss.Quota{})
	}
	for _, c := range counted(t, s.db, o) {
		if c.count.Valid || c.bytes.Valid {
			t.Errorf("counters were set without a quota: %+v", c)
		}
	}
	for i, collection := range []string{"tabs", "forms", "history", "prefs"} {
		s.clear()
		w := put(3+i, collection, large)
		n := recounts(s.wire.taken())
		if n > 1 || (n == 1) != (i == 0) {
			t.Errorf("write %d has counted %d times", i, n)
		}
		if want := int64(10 * (4 + i)); w.Used.User != want {
			t.Errorf("write %d: %v used, want %d", i, w.Used, want)
		}
		checkCounted(t, s, o)
	}
}

// TestQuotaFlips toggles a quota between random writes. Counters must be correct or NULL.
func TestQuotaFlips(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			if seed == 1 || seed == 2 {
				testdb.SoakOnly(t, "others have shown the same")
			}
			s := newTapped(t, nil)
			f := flips{t: t, s: s, o: user("a"), r: rand.New(rand.NewPCG(seed, 0))}
			written := map[bool]int{}
			for i := range 60 {
				w := to([]string{"forms", "tabs"}[f.r.IntN(2)], i, ss.Quota{})
				if f.r.IntN(2) == 0 {
					w.Quota = ss.Quota{Collection: []int64{0, 60}[f.r.IntN(2)], User: []int64{80, 1 << 40}[f.r.IntN(2)], Enforce: f.r.IntN(2) == 0}
				}
				kind, err := f.step(w)
				if err != nil && !errcode.Is(err, errcode.Quota) && !errcode.Is(err, errcode.NotFound) {
					t.Fatalf("step %d, %s: %v", i, kind, err)
				}
				if err == nil {
					written[w.Quota.Limited()]++
				}
				if all := counted(t, s.db, f.o); slices.ContainsFunc(all, sums.wrong) {
					t.Fatalf("step %d, %s, quota %v: the counters are wrong: %+v", i, kind, w.Quota, all)
				}
			}
			if written[true] < 10 || written[false] < 10 {
				t.Errorf("%v were written", written)
			}
		})
	}
}

type flips struct {
	t    *testing.T
	s    *tapped
	o    ss.Owner
	r    *rand.Rand
	open string // collection with an open batch, or ""
	made int    // number of batches; only the last may be open
}

func (f *flips) step(w ss.Write) (kind string, err error) {
	ctx := f.t.Context()
	switch f.r.IntN(8) {
	case 0:
		_, err = f.s.Put(ctx, f.o, w, f.updates()[0])
		return "Put", err
	case 1, 2:
		_, err = f.s.Post(ctx, f.o, w, f.updates())
		return "Post", err
	case 3, 4, 5:
		return f.batch(w)
	case 6:
		_, err = f.s.DeleteBSOs(ctx, f.o, w, []string{"1", "3"})
		return "DeleteBSOs", err
	}
	if f.r.IntN(4) > 0 {
		_, err = f.s.DeleteBSO(ctx, f.o, w, "2")
		return "DeleteBSO", err
	}
	if _, err = f.s.DeleteCollection(ctx, f.o, w); err == nil && f.open == w.Collection {
		f.open = ""
	}
	return "DeleteCollection", err
}

func (f *flips) batch(w ss.Write) (kind string, err error) {
	if f.open != "" {
		w.Collection = f.open
		if _, err = f.s.Commit(f.t.Context(), f.o, w, ss.BatchPart{ID: ss.BatchID(fmt.Sprint(f.made)), Updates: f.updates(), Limits: wide}); err == nil {
			f.open = ""
		}
		return "Commit", err
	}
	f.made++
	if _, err = f.s.Append(f.t.Context(), f.o, w, ss.BatchPart{ID: ss.BatchID(fmt.Sprint(f.made)), Opens: true, Updates: f.updates(), Limits: wide}); err == nil {
		f.open = w.Collection
	}
	return "Append", err
}

// updates returns up to three updates to six records. Some expire soon or immediately.
func (f *flips) updates() []ss.Update {
	us := make([]ss.Update, 1+f.r.IntN(3))
	for i := range us {
		us[i] = ss.Update{ID: fmt.Sprint(f.r.IntN(6))}
		if f.r.IntN(4) > 0 {
			us[i].Payload = ss.Some([]byte(strings.Repeat("x", f.r.IntN(30))))
		}
		if f.r.IntN(3) == 0 {
			us[i].TTL = ss.Some(int64(f.r.IntN(20)))
		}
	}
	return ss.Distinct(us)
}
