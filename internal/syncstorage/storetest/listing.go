package storetest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	ss "holdfast/internal/syncstorage"
)

func listingChecks() []check {
	return []check{
		{"Sorts", sorts},
		{"Fields", listedFields},
		{"Bounds", listBounds},
		{"IDs", listIDs},
		{"Limits", listLimits},
		{"AnyQuery", anyQuery},
		{"Large", largeListing},
		{"LargeAmongSmall", largeAmongSmall},
		{"ClosedUnread", closedUnread},
	}
}

func library(u *user) *model {
	u.t.Helper()
	m := newModel()
	post := func(us ...ss.Update) {
		u.t.Helper()
		w := u.post("bookmarks", us...)
		want, err := m.Post(u.write("bookmarks"), us)
		must(u.t, "the model's Post", err)
		equal(u.t, "stamp", w.Modified, want.Modified)
		u.wait(1e9)
	}
	index := func(id string, n int64) ss.Update {
		return ss.Update{ID: id, SortIndex: ss.Some(n), Payload: text("payload of " + id)}
	}
	post(bso("n1", "x"), index("i3a", 3), index("i0", 0), expiring("dead1", "x", 1))
	post(bso("B", "x"), bso("a", "x"), bso("A", "x"), bso("b", "x"))
	post(index("i3b", 3), index("I3c", 3), index("i-5", -5), bso("n2", ""))
	post(index("top", ss.MaxSortIndex), index("bottom", -ss.MaxSortIndex), expiring("dead2", "x", 0))
	post(ss.Update{ID: "n1", TTL: ss.Some[int64](1_000_000)}, index("a", 1))
	post(bso(" ", "x"), bso("~", "x"), index("i10", 10), index("i9", 9))
	return m
}

func sorts(t *testing.T, u *user) {
	library(u)
	for sort, want := range map[ss.Sort][]string{
		ss.Oldest: {"i0", "i3a", "n1", "A", "B", "b", "I3c", "i-5", "i3b", "n2", "bottom", "top", "a", " ", "i10", "i9", "~"},
		ss.Newest: {"~", "i9", "i10", " ", "a", "top", "bottom", "n2", "i3b", "i-5", "I3c", "b", "B", "A", "n1", "i3a", "i0"},
		ss.ByIndex: {"top", "i10", "i9", "i3b", "i3a", "I3c", "a", "i0", "i-5", "bottom",
			"~", "n2", "n1", "b", "B", "A", " "},
	} {
		equalIDs(t, fmt.Sprintf("sort %d", sort), u.query(ss.Query{Collection: "bookmarks", Sort: sort}), want...)
		equalIDs(t, fmt.Sprintf("sort %d, full", sort), u.query(ss.Query{Collection: "bookmarks", Sort: sort, Full: true}), want...)
	}
	equal(t, "the default order", ss.Query{}.Sort, ss.Newest)
}

func listedFields(t *testing.T, u *user) {
	library(u)
	for _, r := range u.list("bookmarks").records {
		want := u.get("bookmarks", r.id)
		want.expiry = 0
		equal(t, r.id, r, want)
	}
}

func listBounds(t *testing.T, u *user) {
	var stamps []ss.Timestamp
	for _, id := range []string{"0", "1", "2", "3", "4"} {
		stamps = append(stamps, u.put("bookmarks", bso(id, "x")).Modified)
	}
	all := []string{"0", "1", "2", "3", "4"}
	var none ss.Optional[ss.Timestamp]
	for _, tc := range []struct {
		name         string
		newer, older ss.Optional[ss.Timestamp]
		want         []string
	}{
		{"none", none, none, all},
		{"newer than never", ss.Some[ss.Timestamp](0), none, all},
		{"newer", ss.Some(stamps[1]), none, all[2:]},
		{"newer by a tick less", ss.Some(stamps[1] - tick), none, all[1:]},
		{"newer than the last", ss.Some(stamps[4]), none, nil},
		{"newer than the end of time", ss.Some(ss.MaxTimestamp), none, nil},
		{"older", none, ss.Some(stamps[3]), all[:3]},
		{"older by a tick more", none, ss.Some(stamps[3] + tick), all[:4]},
		{"older than never", none, ss.Some[ss.Timestamp](0), nil},
		{"older than the end of time", none, ss.Some(ss.MaxTimestamp), all},
		{"between", ss.Some(stamps[0]), ss.Some(stamps[3]), all[1:3]},
		{"between one and itself", ss.Some(stamps[2]), ss.Some(stamps[2]), nil},
		{"between a tick before and after", ss.Some(stamps[2] - tick), ss.Some(stamps[2] + tick), all[2:3]},
		{"from after to before", ss.Some(stamps[3]), ss.Some(stamps[1]), nil},
	} {
		for _, sort := range []ss.Sort{ss.Oldest, ss.Newest, ss.ByIndex} {
			p := u.query(ss.Query{Collection: "bookmarks", Sort: sort, Newer: tc.newer, Older: tc.older})
			want := slices.Clone(tc.want)
			if sort != ss.Oldest {
				slices.Reverse(want)
			}
			equalIDs(t, fmt.Sprintf("%s, sort %d", tc.name, sort), p, want...)
			equal(t, tc.name+": collection", p.modified, stamps[4])
		}
	}
}

func listIDs(t *testing.T, u *user) {
	library(u)
	q := ss.Query{Collection: "bookmarks", Sort: ss.Oldest}
	q.IDs = []string{"a", "absent", "dead1", "n2", "a", "A"}
	equalIDs(t, "ids", u.query(q), "A", "n2", "a")
	q.Sort, q.Limit = ss.Newest, ss.Some(2)
	p := u.query(q)
	equalIDs(t, "ids with a limit", p, "a", "n2")
	q.Offset = p.next
	equalIDs(t, "the rest", u.query(q), "A")
	q = ss.Query{Collection: "bookmarks", IDs: []string{"absent"}}
	equalIDs(t, "absent ids", u.query(q))
	equal(t, "collection", u.query(q).modified, u.collections().Modified)

	var us []ss.Update
	var ids []string
	for i := range ss.MaxIDsInQuery {
		ids = append(ids, fmt.Sprintf("%03d", i))
		us = append(us, bso(ids[i], "x"))
	}
	u.post("tabs", us...)
	equalIDs(t, "as many as a query may name", u.query(ss.Query{Collection: "tabs", Sort: ss.Oldest, IDs: ids}), ids...)
}

func listLimits(t *testing.T, u *user) {
	u.post("bookmarks", bso("a", "x"), bso("b", "x"), bso("c", "x"))
	all := []string{"a", "b", "c"}
	for _, tc := range []struct {
		limit, skip int
		want        []string
		more        bool
	}{
		{1, 0, all[:1], true}, {2, 0, all[:2], true}, {3, 0, all, false}, {4, 0, all, false}, {10_000, 0, all, false},
		{1, 1, all[1:2], true}, {2, 1, all[1:], false}, {1, 2, all[2:], false}, {1, 3, nil, false}, {5, 1_000_000, nil, false},
		{math.MaxInt32, 0, all, false}, {math.MaxInt32, math.MaxInt32, nil, false},
	} {
		q := ss.Query{Collection: "bookmarks", Sort: ss.Oldest, Limit: ss.Some(tc.limit), Offset: ss.Offset{Skip: tc.skip}}
		p := u.query(q)
		equalIDs(t, fmt.Sprintf("limit %d, offset %d", tc.limit, tc.skip), p, tc.want...)
		equal(t, fmt.Sprintf("more after limit %d, offset %d", tc.limit, tc.skip), p.more, tc.more)
	}
	p := u.query(ss.Query{Collection: "bookmarks", Sort: ss.Oldest, Offset: ss.Offset{Skip: 1}})
	equalIDs(t, "offset without a limit", p, "b", "c")
	equal(t, "more without a limit", p.more, false)

	q := ss.Query{Collection: "bookmarks", Sort: ss.Oldest, Limit: ss.Some(0), Offset: ss.Offset{Skip: 1}}
	p = u.query(q)
	equalIDs(t, "limit 0", p)
	if p.more {
		q.Limit, q.Offset = ss.Some(5), p.next
		equalIDs(t, "what follows limit 0", u.query(q), "b", "c")
	}
	equal(t, "more after limit 0", p.more, true)
	equal(t, "more of nothing", u.query(ss.Query{Collection: "tabs", Limit: ss.Some(0)}).more, false)
}

func anyQuery(t *testing.T, u *user) {
	m := library(u)
	full, err := m.List(&ss.Query{Collection: "bookmarks", Sort: ss.Oldest, Full: true, Now: u.now})
	must(t, "the model's List", err)
	var stamps []ss.Timestamp
	for _, r := range full.records {
		stamps = append(stamps, r.modified-tick, r.modified, r.modified+tick)
	}
	stamp := rapid.SampledFrom(stamps)
	ids := append(full.ids(), "dead1", "dead2", "absent")
	rapid.Check(t, func(rt *rapid.T) {
		q := ss.Query{Collection: "bookmarks", Now: u.now}
		q.Sort = rapid.SampledFrom([]ss.Sort{ss.Newest, ss.Oldest, ss.ByIndex}).Draw(rt, "sort")
		q.Full = rapid.Bool().Draw(rt, "full")
		q.Newer = optional(rt, "newer", stamp)
		q.Older = optional(rt, "older", stamp)
		q.Limit = optional(rt, "limit", rapid.IntRange(0, 20))
		if rapid.Bool().Draw(rt, "by ids") {
			q.IDs = rapid.SliceOfN(rapid.SampledFrom(ids), 1, 10).Draw(rt, "ids")
		}
		switch rapid.IntRange(0, 2).Draw(rt, "offset") {
		case 1:
			q.Offset.Skip = rapid.IntRange(0, 20).Draw(rt, "skip")
		case 2:
			r := rapid.SampledFrom(full.records).Draw(rt, "after")
			q.Offset = ss.OffsetAfter(q.Sort, &ss.BSO{ID: r.id, SortIndex: r.index, Modified: r.modified})
		}
		l, err := u.store.List(t.Context(), u.owner, &q)
		must(rt, "List", err)
		got, err := readPage(l)
		must(rt, "List", err)
		want, err := m.List(&q)
		must(rt, "the model's List", err)
		samePage(rt, &q, got, want)
	})
}

func samePage(t tb, q *ss.Query, got, want page) {
	t.Helper()
	if !q.Full {
		for i := range got.records {
			got.records[i] = record{id: got.records[i].id}
		}
	}
	if !slices.Equal(got.records, want.records) {
		t.Errorf("%+v:\n%v, want\n%v", *q, got.records, want.records)
	}
	equal(t, "collection", got.modified, want.modified)
	equal(t, "more", got.more, want.more)
	if got.more && want.more {
		equal(t, "next", got.next.Token(), want.next.Token())
	}
}

func optional[T any](rt *rapid.T, label string, g *rapid.Generator[T]) ss.Optional[T] {
	if !rapid.Bool().Draw(rt, "with "+label) {
		return ss.Optional[T]{}
	}
	return ss.Some(g.Draw(rt, label))
}

func largeListing(t *testing.T, u *user) {
	const n, size = 24, 1 << 19
	for i := 0; i < n; i += 4 {
		var us []ss.Update
		for j := range 4 {
			id := fmt.Sprintf("%02d", i+j)
			us = append(us, bso(id, id+xs(size)))
		}
		u.post("history", us...)
	}
	u.put("history", expiring("dead", xs(size), 0))
	whole := u.list("history")
	equal(t, "records", len(whole.records), n)
	for i, r := range whole.records {
		if id := fmt.Sprintf("%02d", i); r.id != id || r.payload != id+xs(size) {
			t.Errorf("record %d is %v", i, r)
		}
	}
	var paged []record
	q := ss.Query{Collection: "history", Sort: ss.Oldest, Full: true, Limit: ss.Some(10)}
	for _, want := range []int{10, 10, 4} {
		p := u.query(q)
		equal(t, "page", len(p.records), want)
		equal(t, "more", p.more, want == 10)
		paged, q.Offset = append(paged, p.records...), p.next
	}
	if !slices.Equal(paged, whole.records) {
		t.Error("the pages differ from the whole listing")
	}
	q = ss.Query{Collection: "history", Sort: ss.Newest, Full: true, Limit: ss.Some(n)}
	equal(t, "more of exactly the limit", u.query(q).more, false)
	for _, q := range []ss.Query{
		{IDs: []string{"07", "dead", "03"}, Sort: ss.Oldest, Full: true},
		{IDs: []string{"07", "dead", "03"}, Sort: ss.Oldest},
	} {
		q.Collection = "history"
		equalIDs(t, "some of many", u.query(q), "03", "07")
	}
	q = ss.Query{Collection: "history", Full: true, Limit: ss.Some(0)}
	equalIDs(t, "limit 0", u.query(q))
}

func largeAmongSmall(t *testing.T, u *user) {
	const small, large, size = 400, 8, 1 << 19
	for from := 0; from < small; from += 50 {
		var us []ss.Update
		for i := range 50 {
			us = append(us, bso(fmt.Sprintf("small%04d", from+i), "x"))
		}
		u.post("history", us...)
	}
	u.wait(1e9)
	var ids []string
	for i := range large {
		ids = append(ids, fmt.Sprintf("large%d", i))
		u.put("history", bso(ids[i], ids[i]+xs(size)))
		u.wait(1e9)
	}
	slices.Reverse(ids)
	for name, q := range map[string]ss.Query{
		"limit":         {Limit: ss.Some(large)},
		"limit and ids": {Limit: ss.Some(large), IDs: append(ids, "small0001")},
		"ids":           {IDs: ids},
	} {
		q.Collection, q.Full = "history", true
		p := u.query(q)
		equalIDs(t, name, p, ids...)
		equal(t, name+": more", p.more, q.IDs == nil || len(q.IDs) > large)
		for _, r := range p.records {
			if r.payload != r.id+xs(size) {
				t.Errorf("%s: %s has another payload", name, r.id)
			}
		}
	}
}

func closedUnread(t *testing.T, u *user) {
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		u.put("history", bso(id, xs(2<<20)))
	}
	u.put("history", bso("f", "x"))
	for i := range 70 {
		l, err := u.store.List(t.Context(), u.owner, &ss.Query{Collection: "history", Full: true, Now: u.now})
		must(t, "List", err)
		if i%2 == 0 {
			for b, err := range l.Items {
				must(t, "Items", err)
				equal(t, "the first", b.ID, "f")
				break
			}
		}
		l.Close()
		l.Close()
	}
	equal(t, "records", len(u.list("history").records), 6)
	u.put("history", bso("g", "x"))
}
