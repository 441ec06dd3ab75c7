package buckets_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/storetest"
)

// equal treats an empty slice as nil.
func equal(t interface {
	Errorf(format string, args ...any)
}, what string, got, want any,
) {
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	if g.Kind() == reflect.Slice && w.Kind() == reflect.Slice && g.Len()+w.Len() == 0 {
		return
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

func TestCondition(t *testing.T) {
	t.Parallel()
	o := storetest.CaseObject()
	for _, c := range storetest.ConditionCases() {
		for _, check := range []struct {
			what      string
			got, want error
		}{
			{"read", c.Condition.CheckRead(&o), c.Read},
			{"write", c.Condition.CheckWrite(&o), c.Write()},
			{"write of none", c.Condition.CheckWrite(nil), c.Absent},
		} {
			if !errors.Is(check.got, check.want) {
				t.Errorf("%s: %s: %v, want %v", c.Name, check.what, check.got, check.want)
			}
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]error{
		"abc": nil, "a-b.c-d": nil, "123": nil, "1.2.3": nil, "1.2.3.4a": nil, "1.2.3.4.5": nil, "a.2.3.4": nil, strings.Repeat("a", 63): nil, "xn--a": nil,
		"": buckets.ErrBucketName, "ab": buckets.ErrBucketName, strings.Repeat("a", 64): buckets.ErrBucketName, "Abc": buckets.ErrBucketName,
		"a_b": buckets.ErrBucketName, "a..b": buckets.ErrBucketName, ".ab": buckets.ErrBucketName, "ab.": buckets.ErrBucketName, "-ab": buckets.ErrBucketName,
		"ab-": buckets.ErrBucketName, "a-.b": buckets.ErrBucketName, "a.-b": buckets.ErrBucketName, "192.168.5.4": buckets.ErrBucketName,
		"999.1.1.1": buckets.ErrBucketName, "001.1.1.1": buckets.ErrBucketName, "a/b": buckets.ErrBucketName, "abé": buckets.ErrBucketName, "a b": buckets.ErrBucketName, "abc\n": buckets.ErrBucketName,
	} {
		if err := buckets.CheckBucketName(name); !errors.Is(err, want) {
			t.Errorf("bucket %q: %v, want %v", name, err, want)
		}
	}
	for name, want := range map[string]error{
		"a": nil, "..": nil, "//": nil, "%2e": nil, "\x01\x7f\n": nil, strings.Repeat("é", 512): nil,
		"": buckets.ErrObjectNameEmpty, strings.Repeat("a", 1025): buckets.ErrObjectNameTooLong, strings.Repeat("é", 512) + "a": buckets.ErrObjectNameTooLong,
		"a\x00": buckets.ErrObjectName, "\xff": buckets.ErrObjectName, "\xed\xa0\x80": buckets.ErrObjectName,
	} {
		if err := buckets.CheckObjectName(name); !errors.Is(err, want) {
			t.Errorf("object %q: %v, want %v", name, err, want)
		}
	}
	for id, want := range map[string]error{
		"dc:1.stor": nil, "a_B-1.x:y": nil, strings.Repeat("a", 128) + ":b": nil,
		"": buckets.ErrNodeID, "dc": buckets.ErrNodeID, "dc:": buckets.ErrNodeID, ":a": buckets.ErrNodeID, "a:b:c": buckets.ErrNodeID, "a b:c": buckets.ErrNodeID, strings.Repeat("a", 129) + ":b": buckets.ErrNodeID,
	} {
		if err := buckets.CheckNodeID(id); !errors.Is(err, want) {
			t.Errorf("node %q: %v, want %v", id, err, want)
		}
	}
	for name, want := range map[string]error{"a": nil, "a-1": nil, "": buckets.ErrAccountName, "A": buckets.ErrAccountName, "-a": buckets.ErrAccountName, "a.b": buckets.ErrAccountName, strings.Repeat("a", 64): buckets.ErrAccountName} {
		if err := buckets.CheckAccountName(name); !errors.Is(err, want) {
			t.Errorf("account %q: %v, want %v", name, err, want)
		}
	}
}

func TestUUIDs(t *testing.T) {
	t.Parallel()
	const good = "6f2a2e8c-5f8e-4d3a-9f0b-0c4b8f6a1d22"
	for s, want := range map[string]string{
		good: good, strings.ToUpper(good): good, "": "", good + "0": "", strings.ReplaceAll(good, "-", "0"): "", "g" + good[1:]: "", "00000000-0000-0000-0000-000000000000": "",
	} {
		if got, err := buckets.ParseUUID(s); got != want || (err == nil) != (want != "") {
			t.Errorf("ParseUUID(%q) is %q, %v", s, got, err)
		}
	}
	now := buckets.At(time.UnixMilli(1_700_000_000_123))
	first, later := buckets.NewUploadID(now), buckets.NewUploadID(now+1000)
	if _, err := buckets.ParseUUID(string(first)); err != nil || first >= later || first[14] != '7' {
		t.Errorf("upload IDs: %s, %s: %v", first, later, err)
	}
	if a, b := buckets.NewUUID(), buckets.NewUUID(); a == b || a[14] != '4' {
		t.Errorf("UUIDs: %s, %s", a, b)
	}
}

func TestBodyPath(t *testing.T) {
	t.Parallel()
	for name, sum := range map[string]string{"a": "0cc175b9c0f1b6a831c399e269772661", "../a": "1fddb767f33598c8f9de26939a6e7787"} {
		if got, want := buckets.BodyPath("o", "b", "abc", name), "v2/o/b/ab/abc,"+sum; got != want {
			t.Errorf("path: %s, want %s", got, want)
		}
	}
}

func TestMoment(t *testing.T) {
	t.Parallel()
	for m, want := range map[buckets.Moment]int64{0: 0, 1: 0, 999_999: 0, 1_000_000: 1, -1: -1, -1_000_000: -1, -1_000_001: -2} {
		if got := m.Seconds(); got != want || got != m.Time().Unix() {
			t.Errorf("seconds of %d: %d, want %d", m, got, want)
		}
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_901_999, time.FixedZone("", 3600))
	if got := buckets.At(at).Time(); !got.Equal(at.Truncate(time.Microsecond)) || got.Location() != time.UTC {
		t.Errorf("round trip of %s: %s", at, got)
	}
}

// TestSuccessor checks that no valid name lies between a prefix's names and the successor.
func TestSuccessor(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{
		"a": "b", "a/": "a0", "\x7f": "\u0080", "\u07ff": "\u0800", "\ud7ff": "\ue000", "\uffff": "\U00010000", "a\U0010ffff": "b", "é": "ê", "": "", "\U0010ffff\U0010ffff": "",
	} {
		got, ok := buckets.Successor(prefix)
		if got != want || ok != (want != "") {
			t.Errorf("successor of %q: %q, %v", prefix, got, ok)
		}
	}
	text := rapid.StringOf(rapid.RuneFrom([]rune{'a', 'b', '/', '\x7f', 'é', '\ud7ff', '\ue000', '\uffff', utf8.MaxRune, 'z'}))
	rapid.Check(t, func(rt *rapid.T) {
		prefix, s := text.Draw(rt, "prefix"), text.Draw(rt, "text")
		next, ok := buckets.Successor(prefix)
		if !utf8.ValidString(next) {
			rt.Fatalf("%q is not UTF-8", next)
		}
		if in := strings.HasPrefix(s, prefix); in != (s >= prefix && (!ok || s < next)) {
			rt.Fatalf("%q has the prefix %q: %v, successor %q", s, prefix, in, next)
		}
	})
}

// addName calls Add, with or without AddGroup first, like the backends.
func addName(rt *rapid.T, l *buckets.Lister, name string) (next buckets.Position, skip, done bool) {
	if rapid.Bool().Draw(rt, "name only") {
		if next, skip, done = l.AddGroup(name); skip || done {
			return next, skip, done
		}
	}
	return l.Add(buckets.Object{Name: name})
}

// TestLister checks that a Lister reads at most one row more than the page has entries.
func TestLister(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		names := storetest.DrawNames(rt)
		q := storetest.DrawQuery(rt)
		if rapid.Bool().Draw(rt, "marker") {
			q = q.Starting(q.Start.Name)
		}
		slices.Sort(names)
		l, rows := buckets.NewLister(q), 0
		for from, more := l.From(), true; more; {
			more = false
			at := sort.Search(len(names), func(i int) bool {
				return names[i] > from.Name || from.Inclusive && names[i] == from.Name
			})
			for _, name := range names[at:] {
				rows++
				next, skip, done := addName(rt, l, name)
				if skip {
					from, more = next, true
				}
				if skip || done {
					break
				}
			}
		}
		page := l.Page()
		var got []string
		for _, e := range page.Entries {
			got = append(got, e.Name())
		}
		want, more := storetest.NaiveList(names, q)
		equal(rt, fmt.Sprintf("%+v", q), got, want)
		equal(rt, "more", page.More, more)
		if rows > len(got)+1 {
			rt.Errorf("%d rows for %d entries", rows, len(got))
		}
	})
}

func TestAssemble(t *testing.T) {
	t.Parallel()
	sum := func(c byte) []byte { return slices.Repeat([]byte{c}, 16) }
	tag := func(c byte) string { return fmt.Sprintf("%x", sum(c)) }
	var stored []buckets.Part
	for i, n := range []int{1, 3, 4, 9} {
		stored = append(stored, buckets.Part{Number: n, Body: buckets.Body{Length: int64(10 * n), MD5: sum(byte(n))}, Checksum: buckets.Checksum{Value: fmt.Sprint(i)}})
	}
	a, err := buckets.Assemble(stored, []buckets.PartRef{{1, tag(1), "0"}, {4, strings.ToUpper(tag(4)), ""}}, 10)
	if err != nil || a.Length != 50 || a.UnusedBytes() != 120 || len(a.Used) != 2 || a.Used[1].Start != 10 || a.Used[1].Number != 4 || len(a.Unused) != 2 || a.Sums[1].Value != "2" {
		t.Errorf("assembly: %+v, %v", a, err)
	}
	// md5(16 × 0x01 ‖ 16 × 0x04).
	if want := "3a3ab58b441be60253045f5c19398c78-2"; a.ETag != want {
		t.Errorf("entity tag %s, want %s", a.ETag, want)
	}
	for name, c := range map[string]struct {
		list []buckets.PartRef
		min  int64
		want error
	}{
		"none": {nil, 0, buckets.ErrNoParts}, "order": {[]buckets.PartRef{{3, tag(3), ""}, {1, tag(1), ""}}, 0, buckets.ErrPartOrder},
		"twice": {[]buckets.PartRef{{3, tag(3), ""}, {3, tag(3), ""}}, 0, buckets.ErrPartOrder}, "missing": {[]buckets.PartRef{{2, tag(2), ""}}, 0, buckets.ErrPart},
		"after the last": {[]buckets.PartRef{{10, tag(9), ""}}, 0, buckets.ErrPart}, "tag": {[]buckets.PartRef{{1, tag(3), ""}}, 0, buckets.ErrPart},
		"no tag": {[]buckets.PartRef{{1, "", ""}}, 0, buckets.ErrPart}, "checksum": {[]buckets.PartRef{{1, tag(1), "9"}}, 0, buckets.ErrPart},
		"small": {[]buckets.PartRef{{1, tag(1), ""}, {3, tag(3), ""}}, 11, buckets.ErrPartTooSmall}, "small and last": {[]buckets.PartRef{{3, tag(3), ""}, {4, tag(4), ""}}, 30, nil},
	} {
		if _, err := buckets.Assemble(stored, c.list, c.min); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestQuotaAndMiscounts(t *testing.T) {
	t.Parallel()
	type u = buckets.Usage
	for _, c := range []struct {
		q        buckets.Quota
		u, delta u
		want     bool
	}{
		{buckets.Quota{}, u{math.MaxInt32, math.MaxInt32}, u{1, 1}, true}, {buckets.Quota{Objects: 2}, u{1, 9}, u{1, 99}, true}, {buckets.Quota{Objects: 2}, u{2, 0}, u{1, 0}, false},
		{buckets.Quota{Bytes: 10}, u{0, 9}, u{1, 1}, true}, {buckets.Quota{Bytes: 10}, u{0, 10}, u{1, 1}, false}, {buckets.Quota{1, 1}, u{5, 50}, u{-1, -1}, true},
		{buckets.Quota{1, 1}, u{5, 50}, u{0, 0}, true}, {buckets.Quota{1, 1}, u{5, 50}, u{-1, 1}, false},
	} {
		if got := c.q.Allows(c.u, c.delta); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	stored := map[buckets.BucketID]u{"a": {1, 10}, "b": {2, 20}}
	counted := map[buckets.BucketID]u{"": {3, 31}, "a": {1, 10}, "c": {0, 5}, "d": {}}
	want := []buckets.Miscount{{"", u{3, 31}, u{3, 30}}, {"b", u{}, u{2, 20}}, {"c", u{0, 5}, u{}}}
	equal(t, "miscounts", buckets.Miscounts(counted, stored), want)
	equal(t, "stored", len(stored), 2)
}

func TestProperties(t *testing.T) {
	t.Parallel()
	for _, p := range []buckets.Properties{
		{}, {ETag: "a-1", Upload: "u", Parts: 1}, {Tags: map[string]string{"a": "\"\u2028"}}, {Extra: json.RawMessage(`{"a":1}`)}, {Parts: 2, Extra: json.RawMessage(`{"a":{"s3":1.50}}`)},
		{Checksum: buckets.Checksum{Algorithm: "SHA1", Value: "x-2", Composite: true}},
	} {
		text, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := buckets.DecodeProperties(text)
		equal(t, "error", err, nil)
		equal(t, string(text), got, p)
	}
	for _, bad := range []string{`null`, `[]`, `1`, `{`, ``, `{"s3":{}}`} {
		if err := buckets.CheckExtra(json.RawMessage(bad)); !errors.Is(err, buckets.ErrProperties) {
			t.Errorf("%s: %v", bad, err)
		}
		p := buckets.Properties{ETag: "a", Extra: json.RawMessage(bad)}
		if _, err := p.Encode(); !errors.Is(err, buckets.ErrProperties) {
			t.Errorf("encode %s: %v", bad, err)
		}
	}
}
