package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdfast/internal/buckets"
)

// NaiveList defines a listing. It returns the entries for all names, and whether more entries follow. A group ends
// with the delimiter.
func NaiveList(names []string, q buckets.Query) (entries []string, more bool) {
	for _, name := range sorted(names) {
		if !strings.HasPrefix(name, q.Prefix) || name < q.Start.Name || name == q.Start.Name && !q.Start.Inclusive {
			continue
		}
		if q.Delimiter != "" {
			if before, _, found := strings.Cut(name[len(q.Prefix):], q.Delimiter); found {
				name = q.Prefix + before + q.Delimiter
			}
		}
		if n := len(entries); n > 0 && entries[n-1] == name {
			continue
		}
		if len(entries) == q.Limit {
			return entries, true
		}
		entries = append(entries, name)
	}
	return entries, false
}

func sorted(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return names
}

// DrawQuery draws a query that fits DrawNames.
func DrawQuery(rt *rapid.T) buckets.Query {
	q := buckets.Query{
		Prefix:    drawText(rt, "prefix", 3),
		Delimiter: rapid.SampledFrom([]string{"", "/", "/", "//", "a", "\U0010ffff", "0", "/a", "é"}).Draw(rt, "delimiter"),
		Limit:     rapid.SampledFrom([]int{1, 2, 3, 5, buckets.MaxPage}).Draw(rt, "limit"),
	}
	if rapid.Bool().Draw(rt, "start") {
		q.Start = buckets.Position{Name: drawText(rt, "start", 5), Inclusive: rapid.Bool().Draw(rt, "inclusive")}
	}
	return q
}

// DrawNames draws names that share prefixes and contain delimiters.
func DrawNames(rt *rapid.T) []string {
	return rapid.SliceOfNDistinct(rapid.Custom(func(rt *rapid.T) string { return drawText(rt, "name", 6) }).
		Filter(func(s string) bool { return s != "" }), 0, 30, rapid.ID).Draw(rt, "names")
}

func drawText(rt *rapid.T, label string, most int) string {
	letters := rapid.SampledFrom([]string{"/", "/", "a", "a", "0", "%", "_", "é", "\U0010ffff", "\ud7ff"})
	return strings.Join(rapid.SliceOfN(letters, 0, most).Draw(rt, label), "")
}

func listingChecks() []check {
	return []check{
		{"Empty", func(t *testing.T, u *user) {
			equal(t, "page", u.list(buckets.Query{Limit: buckets.MaxPage}), buckets.Page{})
		}},
		{"Entries", listEntries},
		{"Delimiters", listDelimiters},
		{"Markers", listMarkers},
		{"LargeGroup", listLargeGroup},
		{"OneSnapshot", listOneSnapshot},
		{"Bytes", listBytes},
		{"Random", listRandom},
	}
}

func listEntries(t *testing.T, u *user) {
	want := u.putObject(full("a"))
	id := u.createUpload("b", u.now)
	multipart := u.complete("b", id, u.putPart("b", id, part(1, 10, u.now)))
	p := u.list(buckets.Query{Limit: 5})
	equal(t, "entries", len(p.Entries), 2)
	want.Headers, want.Roles, want.Inline, want.Sharks = nil, nil, nil, nil
	wantObject(t, "entry", *p.Entries[0].Object, want)
	equal(t, "entity tag", p.Entries[1].Object.EntityTag(), multipart.ETag)
	equal(t, "length", p.Entries[1].Object.Length, 10)
}

func listBytes(t *testing.T, u *user) {
	long := strings.Repeat("n", 900)
	for i := range 12 {
		u.put(fmt.Sprintf("a/%d", i))
		u.put(fmt.Sprintf("b%d/%s", i, long))
		u.createUpload(fmt.Sprintf("c%02d/%s", i, long), u.now)
	}
	for _, delimiter := range []string{"", "/"} {
		want := u.listed(buckets.Query{Delimiter: delimiter, Limit: buckets.MaxPage})
		for _, most := range []int{1, 2000, 5000, 1 << 20} {
			q := buckets.Query{Delimiter: delimiter, Limit: 100, Bytes: most}
			var got []string
			for more := true; more; {
				p := u.list(q)
				size, last := 0, 0
				for i := range p.Entries {
					last = p.Entries[i].Memory()
					size += last
				}
				if size-last >= most || p.More && size < most {
					t.Errorf("a page of %d entries with %d bytes, %d of the last one, the limit is %d", len(p.Entries), size, last, most)
				}
				got, more, q.Start = append(got, entryNames(p)...), p.More, p.Next
			}
			equal(t, fmt.Sprintf("entries of pages of %d bytes", most), got, want)
		}
	}
	q, got := buckets.UploadQuery{Limit: 100, Bytes: 3000}, 0
	for more := true; more; {
		p, err := u.h.Uploads.ListUploads(t.Context(), u.owner, u.bucket.ID, q)
		must(t, "ListUploads", err)
		if len(p.Uploads) > 3 || len(p.Uploads) == 0 {
			t.Fatalf("a page of %d uploads", len(p.Uploads))
		}
		got += len(p.Uploads)
		more, q.After, q.AfterID = p.More, p.After, p.AfterID
	}
	equal(t, "uploads", got, 12)
}

func listDelimiters(t *testing.T, u *user) {
	for _, name := range []string{"/", "//", "a", "a/", "a//b", "a/b", "a/b/c", "a=-=b", "a=-=c", "b", "été/1"} {
		u.put(name)
	}
	for _, c := range []struct {
		prefix, delimiter string
		want              []string
	}{
		{"", "/", []string{"/", "a", "a/", "a=-=b", "a=-=c", "b", "été/"}},
		{"a", "/", []string{"a", "a/", "a=-=b", "a=-=c"}},
		{"a/", "/", []string{"a/", "a//", "a/b", "a/b/"}},
		{"/", "/", []string{"/", "//"}},
		{"", "//", []string{"/", "//", "a", "a/", "a//", "a/b", "a/b/c", "a=-=b", "a=-=c", "b", "été/1"}},
		{"", "=-=", []string{"/", "//", "a", "a/", "a//b", "a/b", "a/b/c", "a=-=", "b", "été/1"}},
		{"a", "=-=", []string{"a", "a/", "a//b", "a/b", "a/b/c", "a=-="}},
		{"", "é", []string{"/", "//", "a", "a/", "a//b", "a/b", "a/b/c", "a=-=b", "a=-=c", "b", "é"}},
		{"none", "/", nil},
	} {
		for _, limit := range []int{1, 2, 3, 1000} {
			what := fmt.Sprintf("prefix %q, delimiter %q, limit %d", c.prefix, c.delimiter, limit)
			equal(t, what, u.listed(buckets.Query{Prefix: c.prefix, Delimiter: c.delimiter, Limit: limit}), c.want)
		}
	}
}

func listMarkers(t *testing.T, u *user) {
	for _, name := range []string{"a", "b/1", "b/2", "b0", "c"} {
		u.put(name)
	}
	for marker, want := range map[string][]string{
		"": {"a", "b/", "b0", "c"}, "a": {"b/", "b0", "c"}, "aa": {"b/", "b0", "c"}, "b": {"b/", "b0", "c"},
		"b/": {"b0", "c"}, "b/1": {"b/", "b0", "c"}, "b/2": {"b0", "c"}, "b0": {"c"}, "c": nil, "d": nil,
	} {
		equal(t, "after "+marker, u.listed(buckets.Query{Delimiter: "/", Limit: 2}.Starting(marker)), want)
	}
	equal(t, "marker before the prefix", u.listed(buckets.Query{Prefix: "b/", Limit: 2}.Starting("a")), []string{"b/1", "b/2"})
	equal(t, "marker equal to the prefix", u.listed(buckets.Query{Prefix: "b/1", Limit: 2}.Starting("b/1")), nil)
	equal(t, "marker after the prefix", u.listed(buckets.Query{Prefix: "b/", Limit: 2}.Starting("c")), nil)
}

func listLargeGroup(t *testing.T, u *user) {
	for i := range 3000 {
		u.putObject(buckets.Object{Name: fmt.Sprintf("g%d/%04d", i%2, i), Body: inline("")})
	}
	p := u.list(buckets.Query{Delimiter: "/", Limit: buckets.MaxPage})
	equal(t, "entries", entryNames(p), []string{"g0/", "g1/"})
	equal(t, "objects", len(u.listed(buckets.Query{Limit: buckets.MaxPage})), 3000)
}

func listOneSnapshot(t *testing.T, u *user) {
	u.put("a")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 50 {
			for _, names := range [][2]string{{"z/1", "a"}, {"a", "z/1"}} {
				if _, err := u.tryPut(object(names[0]), buckets.Condition{}); err != nil {
					t.Error(err)
				}
				if _, err := u.tryDelete(names[1], buckets.Condition{}); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	for {
		if n := len(u.list(buckets.Query{Delimiter: "/", Limit: 10}).Entries); n == 0 {
			t.Error("the page shows none of the objects")
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

func listRandom(t *testing.T, u *user) {
	rapid.Check(t, func(rt *rapid.T) {
		u := *u
		u.t = rt
		u.bucket = u.createBucket("b" + buckets.NewUUID())
		names := DrawNames(rt)
		for _, name := range names {
			u.putObject(buckets.Object{Name: name, Body: inline("")})
		}
		for range 5 {
			q := DrawQuery(rt)
			p := u.list(q)
			want, more := NaiveList(names, q)
			equal(rt, fmt.Sprintf("%+v", q), entryNames(p), want)
			equal(rt, fmt.Sprintf("more of %+v", q), p.More, more)
			whole := q
			whole.Limit = buckets.MaxPage
			want, _ = NaiveList(names, whole)
			equal(rt, fmt.Sprintf("all pages of %+v", q), u.listed(q), want)
		}
	})
}
