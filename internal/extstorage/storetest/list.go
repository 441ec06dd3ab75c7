package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

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
		{"Nothing", listNothing},
	}
}

func exportChecks() []check {
	return []check{
		{"Order", exportOrder},
		{"Pages", exportPages},
		{"UnderWrites", exportUnderWrites},
	}
}

// hardKeys sort in another way by some collation, or by UTF-16.
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

// wantPrefix lists by a prefix both ways, whole and in pages.
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

// prefixes are taken as they are, not as patterns.
func prefixes(t *testing.T, u *user) {
	u.fill("s", hardKeys...)
	u.fill("t", "a", "ab", "%") // not of this namespace
	for _, prefix := range []string{"", "a", "aa", "A", "%", "_", "_a", "-", ".", "e", "é", "日", "zz", "\\", "'", "😀", "a\u00a0", "aaa"} {
		wantPrefix(t, u, hardKeys, prefix)
	}
}

// prefixesAtTheEnd: what follows a prefix is found by the next character, which
// the last one of Unicode does not have, and the one before the surrogates has
// behind them.
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

// numbered are n keys in their order.
func numbered(n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf("%04d", i))
	}
	return keys
}

// pages in every size hold every key once.
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

// pagesOfOne: no key is skipped between two pages.
func pagesOfOne(t *testing.T, u *user) {
	u.fill("s", "a", "b", "c", "d")
	wantPrefix(t, u, []string{"a", "b", "c", "d"}, "")
}

// more tells exactly whether there is another page, also when all that would be
// on it has expired.
func more(t *testing.T, u *user) {
	u.fill("s", "a", "b", "c")
	u.apply(mortal("s", "d", `1`, u.now+minute), mortal("s", "0", `1`, u.now+minute))
	u.now += minute
	for limit, want := range map[int]bool{1: true, 2: true, 3: false, 4: false} {
		equal(t, fmt.Sprint("more after ", limit), u.list(ext.Query{Namespace: "s", Limit: limit}).More, want)
		equal(t, fmt.Sprint("more in reverse after ", limit), u.list(ext.Query{Namespace: "s", Limit: limit, Reverse: true}).More, want)
	}
	equal(t, "more behind the last", u.list(ext.Query{Namespace: "s", After: "c"}).More, false)
}

// afterGone: a page begins behind a key whether that is there or not.
func afterGone(t *testing.T, u *user) {
	u.fill("s", "a", "b", "ba", "c")
	u.apply(del("s", "b"))
	u.wantKeys("behind one that is gone", u.list(ext.Query{Namespace: "s", After: "b"}), "ba", "c")
	u.wantKeys("before it", u.list(ext.Query{Namespace: "s", After: "b", Reverse: true}), "a")
	u.wantKeys("behind one that never was", u.list(ext.Query{Namespace: "s", After: "aa"}), "ba", "c")
	u.wantKeys("behind one that others begin with", u.list(ext.Query{Namespace: "s", After: "a"}), "ba", "c")
}

// afterOutside: a position outside the prefix neither leaves it nor brings
// anything back.
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

// valuesAndMetadata come only when they are asked for, all else always.
func valuesAndMetadata(t *testing.T, u *user) {
	op := mortal("s", "a", `{"v":1}`, u.now+hour)
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

// wantThroughout holds pages that were read while others came and went: in
// order, nothing twice, and nothing left out of what was there throughout.
func wantThroughout(got, stays []string) error {
	if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
		return fmt.Errorf("not in order, or something twice: %q", got)
	}
	for _, key := range stays {
		if !slices.Contains(got, key) {
			return fmt.Errorf("%q is left out of %q", key, got)
		}
	}
	return nil
}

// churn writes and deletes keys between those that stay until stop.
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

// pagesUnderWrites: who pages while others write misses nothing that lived
// throughout and sees nothing twice.
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

// readUnderWrites lets readers read a few times while writers write.
func readUnderWrites(t *testing.T, u *user, read func(i int) error) {
	t.Helper()
	stop, done := make(chan struct{}), make(chan error)
	go func() {
		done <- errors.Join(testdb.Together(4, func(i int) error { return u.churn(stop, i) })...)
	}()
	errs := testdb.Together(4, func(i int) error {
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

func listNothing(t *testing.T, u *user) {
	equal(t, "a new install", u.list(ext.Query{Namespace: "s"}).Records, []ext.Record(nil))
	u.fill("s", "a")
	p := u.list(ext.Query{Namespace: "t"})
	equal(t, "another namespace", len(p.Records), 0)
	equal(t, "more", p.More, false)
}

func (u *user) export(limit int) (all []ext.Record) {
	u.t.Helper()
	var after ext.Position
	for range 10_000 {
		page, err := u.h.Store.Export(u.t.Context(), u.owner, after, limit, u.now)
		must(u.t, "Export", err)
		if len(page) > limit {
			u.t.Errorf("a page of %d has %d", limit, len(page))
		}
		if all = append(all, page...); len(page) < limit {
			return all
		}
		last := page[len(page)-1]
		after = ext.Position{Namespace: last.Namespace, Key: last.Key}
	}
	u.t.Fatalf("the export does not come to an end")
	return nil
}

// exportOrder: by namespace and key in bytes, each record whole.
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
	for _, r := range u.export(3) {
		got = append(got, string(r.Namespace)+" "+string(r.Key))
		equal(t, "record", r, u.get(string(r.Namespace), string(r.Key)))
	}
	equal(t, "order", got, want)
}

// exportPages in every size hold every record that is there once.
func exportPages(t *testing.T, u *user) {
	keys := numbered(40)
	u.fill("s", keys...)
	u.fill("t", keys...)
	for i, key := range keys {
		if i%4 == 0 {
			u.apply(mortal("s", key, `1`, u.now+minute))
		}
	}
	u.now += minute
	want := u.export(1000)
	equal(t, "records", len(want), 70)
	for _, limit := range []int{1, 2, 7, 30, 35, 69, 70, 71} {
		equal(t, fmt.Sprintf("pages of %d", limit), u.export(limit), want)
	}
}

func exportUnderWrites(t *testing.T, u *user) {
	stays := numbered(100)
	u.fill("s", stays...)
	readUnderWrites(t, u, func(i int) error {
		var got []string
		var after ext.Position
		for {
			page, err := u.h.Store.Export(t.Context(), u.owner, after, 5+i, u.now)
			if err != nil {
				return err
			}
			if got = append(got, keysOf(page)...); len(page) < 5+i {
				return wantThroughout(got, stays)
			}
			after = ext.Position{Namespace: "s", Key: page[len(page)-1].Key}
		}
	})
}
