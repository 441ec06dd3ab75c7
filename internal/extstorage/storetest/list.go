package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/canonjson"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/testdb"
)

func listChecks() []check {
	return []check{
		{"ByteOrder", byteOrder},
		{"Prefix", prefixes},
		{"PrefixAtTheEndOfUnicode", prefixesAtTheEnd},
		{"Pages", pages},
		{"PagesOfOne", pagesOfOne},
		{"More", more},
		{"AfterAKeyThatIsGone", afterGone},
		{"AfterOutsideThePrefix", afterOutside},
		{"ValuesAndMetadata", valuesAndMetadata},
		{"PagesUnderWrites", pagesUnderWrites},
		{"Bytes", listBytes},
		{"LargeValues", largeValues},
		{"Nothing", listNothing},
	}
}

func exportChecks() []check {
	return []check{
		{"Order", exportOrder},
		{"Pages", exportPages},
		{"UnderWrites", exportUnderWrites},
		{"LargeValues", exportLargeValues},
	}
}

// hardKeys sort differently by some collations or in UTF-16.
var hardKeys = []string{
	"!", "%", "%a", "-", ".", "..", "0", "10", "2", "A", "B", "_", "_a", "a", "a-", "aB", "a_", "aa", "ab", "a\u00a0", "b", "~",
	"Ä", "ß", "à", "é", "e\u0301", "ı", "日", "日本", "\ud7ff", "\ud7ffa", "\ue000", "\uffee", "\ufffd", "\U00010000", "😀", "😀a", "\U0010ffff", "\U0010ffffa", "\U0010ffff\U0010ffff",
}

func (u *user) fill(ns string, keys ...string) {
	u.t.Helper()
	for at := range slices.Chunk(keys, 50) {
		var ops []ext.Op
		for _, key := range at {
			ops = append(ops, put(ns, key, `"`+strings.ReplaceAll(key, `"`, ``)+`"`))
		}
		u.apply(ops...)
	}
}

func byteOrder(t *testing.T, u *user) {
	u.fill("s", hardKeys...)
	want := slices.Sorted(slices.Values(hardKeys))
	u.wantKeys("List", u.list(ext.Query{Namespace: "s"}), want...)
	slices.Reverse(want)
	u.wantKeys("List in reverse", u.list(ext.Query{Namespace: "s", Reverse: true}), want...)
	u.state()
}

func wantPrefix(t *testing.T, u *user, keys []string, prefix string) {
	t.Helper()
	var want []string
	for _, key := range slices.Sorted(slices.Values(keys)) {
		if strings.HasPrefix(key, prefix) {
			want = append(want, key)
		}
	}
	for _, reverse := range []bool{false, true} {
		if reverse {
			slices.Reverse(want)
		}
		for _, limit := range []int{1, 2, 3, 100} {
			var got []string
			q := ext.Query{Namespace: "s", Prefix: prefix, Reverse: reverse, Limit: limit}
			for range 200 {
				p := u.list(q)
				got = append(got, keysOf(p.Records)...)
				if !p.More {
					break
				}
				q.After = p.Records[len(p.Records)-1].Key
			}
			equal(t, fmt.Sprintf("prefix %q in pages of %d, reverse %v", prefix, limit, reverse), got, want)
		}
	}
}

func prefixes(t *testing.T, u *user) {
	u.fill("s", hardKeys...)
	u.fill("t", "a", "ab", "%")
	for _, prefix := range []string{"", "a", "aa", "A", "%", "_", "_a", "-", ".", "e", "é", "日", "zz", "\\", "'", "😀", "a\u00a0", "aaa"} {
		wantPrefix(t, u, hardKeys, prefix)
	}
}

func prefixesAtTheEnd(t *testing.T, u *user) {
	keys := append(slices.Clone(hardKeys), "a\U0010ffff", "a\U0010ffffb", "a\U0010ffff\U0010ffff", "a\ud7ff", "a\ud7ffz", "a\ue000", "a\u007e", "a\u07ff", "a\u07ffz", "a\u0800", "a\uffee", "a\U00010000")
	u.fill("s", keys...)
	for _, prefix := range []string{
		"\U0010ffff", "\U0010ffff\U0010ffff", "a\U0010ffff", "a\U0010ffff\U0010ffff", "\ud7ff", "a\ud7ff", "\ue000", "a\ue000",
		"~", "a~", "a\u07ff", "a\u0800", "\ufffd", "a\uffee", "a\U00010000", "\U00010000",
	} {
		wantPrefix(t, u, keys, prefix)
	}
}

func numbered(n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf("%04d", i))
	}
	return keys
}

func pages(t *testing.T, u *user) {
	keys := numbered(230)
	u.fill("s", keys...)
	for _, reverse := range []bool{false, true} {
		for _, limit := range []int{7, 25, 46, 99, 100} {
			var got []string
			q := ext.Query{Namespace: "s", Limit: limit, Reverse: reverse}
			for range 100 {
				p := u.list(q)
				if p.More && len(p.Records) != limit {
					t.Errorf("a page of %d has %d and is not the last", limit, len(p.Records))
				}
				got = append(got, keysOf(p.Records)...)
				if !p.More {
					break
				}
				q.After = p.Records[len(p.Records)-1].Key
			}
			want := slices.Clone(keys)
			if reverse {
				slices.Reverse(want)
			}
			equal(t, fmt.Sprintf("pages of %d", limit), got, want)
		}
	}
}

func pagesOfOne(t *testing.T, u *user) {
	u.fill("s", "a", "b", "c", "d")
	wantPrefix(t, u, []string{"a", "b", "c", "d"}, "")
}

func more(t *testing.T, u *user) {
	u.fill("s", "a", "b", "c")
	u.apply(expiring("s", "d", `1`, u.now+minute), expiring("s", "0", `1`, u.now+minute))
	u.now += minute
	for limit, want := range map[int]bool{1: true, 2: true, 3: false, 4: false} {
		equal(t, fmt.Sprint("more after ", limit), u.list(ext.Query{Namespace: "s", Limit: limit}).More, want)
		equal(t, fmt.Sprint("more in reverse after ", limit), u.list(ext.Query{Namespace: "s", Limit: limit, Reverse: true}).More, want)
	}
	equal(t, "more after the last", u.list(ext.Query{Namespace: "s", After: "c"}).More, false)
}

func afterGone(t *testing.T, u *user) {
	u.fill("s", "a", "b", "ba", "c")
	u.apply(del("s", "b"))
	u.wantKeys("after a deleted key", u.list(ext.Query{Namespace: "s", After: "b"}), "ba", "c")
	u.wantKeys("before it", u.list(ext.Query{Namespace: "s", After: "b", Reverse: true}), "a")
	u.wantKeys("after a key that never existed", u.list(ext.Query{Namespace: "s", After: "aa"}), "ba", "c")
	u.wantKeys("after a key that is a prefix of others", u.list(ext.Query{Namespace: "s", After: "a"}), "ba", "c")
}

func afterOutside(t *testing.T, u *user) {
	u.fill("s", "a", "ab", "b", "ba", "bb", "c")
	q := ext.Query{Namespace: "s", Prefix: "b"}
	for _, c := range []struct {
		after   string
		reverse bool
		want    []string
	}{
		{"a", false, []string{"b", "ba", "bb"}}, {"b", false, []string{"ba", "bb"}}, {"c", false, nil},
		{"a", true, nil}, {"b", true, nil}, {"ba", true, []string{"b"}}, {"c", true, []string{"bb", "ba", "b"}},
	} {
		q.After, q.Reverse = ext.Key(c.after), c.reverse
		u.wantKeys(fmt.Sprintf("after %s, reverse %v", c.after, c.reverse), u.list(q), c.want...)
	}
}

func valuesAndMetadata(t *testing.T, u *user) {
	op := expiring("s", "a", `{"v":1}`, u.now+hour)
	op.Metadata = `{"m":1}`
	u.apply(op)
	want := u.get("s", "a")
	for _, values := range []bool{false, true} {
		for _, metadata := range []bool{false, true} {
			w := want
			if !values {
				w.Value = ""
			}
			if !metadata {
				w.Metadata = ""
			}
			p := u.list(ext.Query{Namespace: "s", Values: values, Metadata: metadata})
			equal(t, fmt.Sprintf("values %v, metadata %v", values, metadata), p.Records, []ext.Record{w})
		}
	}
}

func wantThroughout(got, stays []string) error {
	if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
		return fmt.Errorf("not in order, or with duplicates: %q", got)
	}
	for _, key := range stays {
		if !slices.Contains(got, key) {
			return fmt.Errorf("%q is missing in %q", key, got)
		}
	}
	return nil
}

func (u *user) churn(stop <-chan struct{}, i int) error {
	for j := 0; ; j++ {
		select {
		case <-stop:
			return nil
		default:
		}
		key := fmt.Sprintf("%04d-%d", (i*31+j*7)%100, i)
		if _, err := u.try(put("s", key, `1`), put("s", fmt.Sprintf("%04d", j%100), fmt.Sprint(j))); err != nil {
			return err
		}
		if _, err := u.try(del("s", key)); err != nil {
			return err
		}
	}
}

func pagesUnderWrites(t *testing.T, u *user) {
	stays := numbered(100)
	u.fill("s", stays...)
	readUnderWrites(t, u, func(i int) error {
		q := ext.Query{Namespace: "s", Limit: 3 + i, Reverse: i%2 == 1, Now: u.now}
		var got []string
		for {
			p, err := u.h.Store.List(t.Context(), u.owner, q)
			if err != nil {
				return err
			}
			got = append(got, keysOf(p.Records)...)
			if !p.More {
				break
			}
			q.After = p.Records[len(p.Records)-1].Key
		}
		if q.Reverse {
			slices.Reverse(got)
		}
		return wantThroughout(got, stays)
	})
}

func readUnderWrites(t *testing.T, u *user, read func(i int) error) {
	t.Helper()
	stop, done := make(chan struct{}), make(chan error)
	go func() {
		done <- errors.Join(testdb.Concurrently(4, func(i int) error { return u.churn(stop, i) })...)
	}()
	errs := testdb.Concurrently(4, func(i int) error {
		for range 3 {
			if err := read(i); err != nil {
				return err
			}
		}
		return nil
	})
	close(stop)
	must(t, "writers", <-done)
	must(t, "readers", errors.Join(errs...))
	u.state()
}

func wantBounded(t tb, p ext.Page, limit, bytes int) {
	t.Helper()
	sum := 0
	for i := range p.Records {
		sum += len(p.Records[i].Value) + len(p.Records[i].Metadata)
	}
	if most := cmp.Or(bytes, ext.PageBytes); len(p.Records) > limit || sum > most && len(p.Records) > 1 || p.More && len(p.Records) == 0 {
		t.Errorf("a page of %d records and %d bytes has %d and %d, more: %v", limit, most, len(p.Records), sum, p.More)
	}
}

func listBytes(t *testing.T, u *user) {
	for key, n := range map[string]int{"a": 5, "b": 100, "c": 10, "d": 10, "e": 2} {
		op := put("s", key, `"`+strings.Repeat("x", n-2)+`"`)
		op.Metadata = `{"m":1}`
		u.apply(op)
	}
	for _, c := range []struct {
		bytes            int
		values, metadata bool
		after            string
		want             string
		more             bool
	}{
		{1, true, true, "", "a", true}, {111, true, true, "", "a", true}, {118, true, true, "", "a", true}, {119, true, true, "", "ab", true},
		{135, true, true, "", "ab", true}, {136, true, true, "", "abc", true}, {161, true, true, "", "abcd", true}, {162, true, true, "", "abcde", false},
		{104, true, false, "", "a", true}, {105, true, false, "", "ab", true}, {99, true, false, "a", "b", true}, {100, true, false, "a", "b", true},
		{22, true, false, "b", "cde", false}, {21, true, false, "b", "cd", true}, {1, true, false, "d", "e", false},
		{13, false, true, "", "a", true}, {14, false, true, "", "ab", true}, {35, false, true, "", "abcde", false},
		{1, false, false, "", "abcde", false}, {0, true, true, "", "abcde", false},
	} {
		q := ext.Query{Namespace: "s", After: ext.Key(c.after), Bytes: c.bytes, Values: c.values, Metadata: c.metadata}
		p := u.list(q)
		equal(t, fmt.Sprintf("%+v", q), strings.Join(keysOf(p.Records), ""), c.want)
		equal(t, fmt.Sprintf("more after %+v", q), p.More, c.more)
	}
	p := u.list(ext.Query{Namespace: "s", Reverse: true, Bytes: 22, Values: true})
	u.wantKeys("in reverse", p, "e", "d", "c")
	equal(t, "more in reverse", p.More, true)
}

func largeValues(t *testing.T, u *user) {
	want := u.fillLarge("s", 2*ext.PageBytes/ext.MaxValueBytes+3)
	for _, reverse := range []bool{false, true} {
		q := ext.Query{Namespace: "s", Values: true, Metadata: true, Reverse: reverse}
		var got []ext.Record
		for range 100 {
			p := u.list(q)
			wantBounded(t, p, ext.MaxPage, 0)
			if got = append(got, p.Records...); !p.More {
				break
			}
			if len(p.Records) != ext.PageBytes/(ext.MaxValueBytes+ext.MaxMetadataBytes) {
				t.Errorf("a page of large records has %d", len(p.Records))
			}
			q.After = p.Records[len(p.Records)-1].Key
		}
		if reverse {
			slices.Reverse(got)
		}
		equal(t, "all", got, want)
	}
}

func (u *user) fillLarge(ns string, n int) (all []ext.Record) {
	u.t.Helper()
	for _, key := range numbered(n) {
		// Some engines store a space after every comma.
		op := put(ns, key, "["+strings.Repeat("1,", ext.MaxValueBytes/2-2)+"11]")
		op.Metadata = canonjson.Value(`{"m":"` + strings.Repeat("x", ext.MaxMetadataBytes-8) + `"}`)
		u.apply(op)
		all = append(all, u.get(ns, key))
	}
	return all
}

func exportLargeValues(t *testing.T, u *user) {
	want := slices.Concat(u.fillLarge("a", 10), u.fillLarge("b", 10))
	equal(t, "all", u.export(ext.MaxPage, 0), want)
}

func listNothing(t *testing.T, u *user) {
	equal(t, "a new install", u.list(ext.Query{Namespace: "s"}).Records, []ext.Record(nil))
	u.fill("s", "a")
	p := u.list(ext.Query{Namespace: "t"})
	equal(t, "another namespace", len(p.Records), 0)
	equal(t, "more", p.More, false)
}

func (u *user) export(limit, bytes int) (all []ext.Record) {
	u.t.Helper()
	q := ext.ExportQuery{Limit: limit, Bytes: bytes, Now: u.now}
	for range 10_000 {
		page, err := u.h.Store.Export(u.t.Context(), u.owner, q)
		must(u.t, "Export", err)
		wantBounded(u.t, page, limit, bytes)
		if all = append(all, page.Records...); !page.More {
			return all
		}
		last := page.Records[len(page.Records)-1]
		q.After = ext.Position{Namespace: last.Namespace, Key: last.Key}
	}
	u.t.Fatalf("the export does not end")
	return nil
}

func exportOrder(t *testing.T, u *user) {
	var want []string
	for _, ns := range []string{"a-b", "ab", "a", "a-", "0"} {
		for _, key := range []string{"z", "a", "é", "A"} {
			u.apply(put(ns, key, `"`+ns+key+`"`))
			want = append(want, ns+" "+key)
		}
	}
	slices.SortFunc(want, func(a, b string) int {
		an, ak, _ := strings.Cut(a, " ")
		bn, bk, _ := strings.Cut(b, " ")
		if n := strings.Compare(an, bn); n != 0 {
			return n
		}
		return strings.Compare(ak, bk)
	})
	var got []string
	for _, r := range u.export(3, 0) {
		got = append(got, string(r.Namespace)+" "+string(r.Key))
		equal(t, "record", r, u.get(string(r.Namespace), string(r.Key)))
	}
	equal(t, "order", got, want)
}

func exportPages(t *testing.T, u *user) {
	keys := numbered(40)
	u.fill("s", keys...)
	u.fill("t", keys...)
	for i, key := range keys {
		if i%4 == 0 {
			u.apply(expiring("s", key, `1`, u.now+minute))
		}
	}
	u.now += minute
	want := u.export(1000, 0)
	equal(t, "records", len(want), 70)
	for _, limit := range []int{1, 2, 7, 30, 35, 69, 70, 71} {
		equal(t, fmt.Sprintf("pages of %d", limit), u.export(limit, 0), want)
	}
	for _, bytes := range []int{1, 8, 9, 50, 500, 559, 560, 561} {
		equal(t, fmt.Sprintf("pages of %d bytes", bytes), u.export(100, bytes), want)
	}
}

func exportUnderWrites(t *testing.T, u *user) {
	stays := numbered(100)
	u.fill("s", stays...)
	readUnderWrites(t, u, func(i int) error {
		var got []string
		q := ext.ExportQuery{Limit: 5 + i, Bytes: 9 * i, Now: u.now}
		for {
			page, err := u.h.Store.Export(t.Context(), u.owner, q)
			if err != nil {
				return err
			}
			if got = append(got, keysOf(page.Records)...); !page.More {
				return wantThroughout(got, stays)
			}
			q.After = ext.Position{Namespace: "s", Key: page.Records[len(page.Records)-1].Key}
		}
	})
}
