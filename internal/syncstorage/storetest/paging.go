package storetest

import (
	"fmt"
	"slices"
	"testing"

	ss "holdfast/internal/syncstorage"
)

func pagingChecks() []check {
	return []check{
		{"WholeInPages", wholeInPages},
		{"UnderWrites", pagesUnderWrites},
		{"BehindADeletedRecord", behindDeleted},
	}
}

func turn(t tb, q ss.Query, p page) ss.Query {
	t.Helper()
	next, err := ss.ParseOffset(p.next.Token())
	must(t, "ParseOffset of "+p.next.Token(), err)
	q.Offset = next
	must(t, "Check of the next page", q.Check())
	return q
}

func wholeInPages(t *testing.T, u *user) {
	library(u)
	first := u.list("bookmarks").records[0].modified
	for _, sort := range []ss.Sort{ss.Newest, ss.Oldest, ss.ByIndex} {
		for _, full := range []bool{true, false} {
			for _, newer := range []ss.Optional[ss.Timestamp]{{}, ss.Some(first)} {
				q := ss.Query{Collection: "bookmarks", Sort: sort, Full: full, Newer: newer}
				whole := u.query(q).ids()
				for limit := 1; limit <= len(whole)+1; limit++ {
					q := q
					q.Limit = ss.Some(limit)
					var ids []string
					p := u.query(q)
					for ids = p.ids(); p.more && len(ids) <= len(whole); ids = append(ids, p.ids()...) {
						equal(t, "a page that is not the last", len(p.records), limit)
						q = turn(t, q, p)
						p = u.query(q)
					}
					if !slices.Equal(ids, whole) {
						t.Errorf("sort %d, full %v, limit %d: %q, want %q", sort, full, limit, ids, whole)
					}
				}
			}
		}
	}
}

func pagesUnderWrites(t *testing.T, u *user) {
	for _, sort := range []ss.Sort{ss.Newest, ss.Oldest, ss.ByIndex} {
		u := u.other()
		const n = 40
		for i := 0; i < n; i += 4 {
			var us []ss.Update
			for j := i; j < i+4; j++ {
				up := bso(fmt.Sprintf("%02d", j), "x")
				if j%3 != 0 {
					up.SortIndex = ss.Some(int64(j % 5))
				}
				us = append(us, up)
			}
			u.post("bookmarks", us...)
		}
		seen := map[string]int{}
		q := ss.Query{Collection: "bookmarks", Sort: sort, Limit: ss.Some(3)}
		p := u.query(q)
		for turns := 0; ; turns++ {
			for _, id := range p.ids() {
				seen[id]++
			}
			if !p.more || turns > 2*n {
				break
			}
			u.deleteBSOs("bookmarks", fmt.Sprintf("%02d", (turns*4+1)%n))
			u.put("bookmarks", ss.Update{ID: fmt.Sprintf("%02d", (turns*4+3)%n), Payload: text("y"), SortIndex: ss.Some(int64(turns % 5))})
			u.put("bookmarks", ss.Update{ID: fmt.Sprintf("new%d", turns), SortIndex: ss.Some(int64(turns%7 - 1))})
			q = turn(t, q, p)
			p = u.query(q)
		}
		for i := 0; i < n; i += 2 {
			if id := fmt.Sprintf("%02d", i); seen[id] != 1 {
				t.Errorf("sort %d: %s, which did not change, was listed %d times", sort, id, seen[id])
			}
		}
	}
}

func behindDeleted(t *testing.T, u *user) {
	u.post("bookmarks", bso("a", "x"), bso("b", "x"), bso("c", "x"), bso("d", "x"))
	for _, sort := range []ss.Sort{ss.Newest, ss.ByIndex} {
		q := ss.Query{Collection: "bookmarks", Sort: sort, Limit: ss.Some(2)}
		p := u.query(q)
		equalIDs(t, "page", p, "d", "c")
		u.deleteBSOs("bookmarks", "c")
		equalIDs(t, "the next page", u.query(turn(t, q, p)), "b", "a")
		u.deleteCollection("bookmarks")
		u.post("bookmarks", bso("a", "x"), bso("b", "x"), bso("c", "x"), bso("d", "x"))
	}
}
