package syncstorage_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
)

func TestParseSort(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]ss.Sort{"newest": ss.Newest, "oldest": ss.Oldest, "index": ss.ByIndex} {
		if got, ok := ss.ParseSort(s); !ok || got != want {
			t.Errorf("%q is %d, %v", s, got, ok)
		}
	}
	for _, s := range []string{"", "Newest", "INDEX", "newest ", " oldest", "newest\n", "none", "0", "sortindex"} {
		if _, ok := ss.ParseSort(s); ok {
			t.Errorf("%q is a sort", s)
		}
	}
}

func TestQueryCheckIDs(t *testing.T) {
	t.Parallel()
	many := func(n int) []string {
		ids := make([]string, n)
		for i := range ids {
			ids[i] = fmt.Sprint(i)
		}
		return ids
	}
	for _, tc := range []struct {
		name string
		ids  []string
		ok   bool
	}{
		{"none", nil, true},
		{"an empty list", []string{}, false}, // would select the whole collection
		{"one", []string{"a"}, true},
		{"as many as may be", many(100), true},
		{"one more", many(101), false},
		{"an empty id", []string{"a", ""}, false},
		{"an invalid id", []string{"a", "é"}, false},
		{"a line break", []string{"a\n"}, false},
		{"a long id", []string{strings.Repeat("a", 65)}, false},
	} {
		q := ss.Query{Collection: "bookmarks", IDs: tc.ids}
		if err := q.Check(); (err == nil) != tc.ok || err != nil && !errcode.Is(err, errcode.Invalid) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func sorts() *rapid.Generator[ss.Sort] {
	return rapid.SampledFrom([]ss.Sort{ss.Newest, ss.Oldest, ss.ByIndex})
}

func ids() *rapid.Generator[string] { return rapid.StringMatching(`[ -~]{1,64}`) }

// TestOffsetRoundTrip checks that a token needs no escaping, and belongs to a single order.
func TestOffsetRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sort := sorts().Draw(t, "sort")
		b := ss.BSO{ID: ids().Draw(t, "id"), Modified: stamps().Draw(t, "modified")}
		if rapid.Bool().Draw(t, "with sortindex") {
			b.SortIndex = ss.Some(rapid.Int64Range(-ss.MaxSortIndex, ss.MaxSortIndex).Draw(t, "sortindex"))
		}
		o := ss.OffsetAfter(sort, &b)
		token := o.Token()
		if url.QueryEscape(token) != token || len(token) > 128 {
			t.Errorf("the token %q needs escaping or is too long", token)
		}
		got, err := ss.ParseOffset(token)
		if err != nil || got != o {
			t.Errorf("%q is read as %+v, %v, want %+v", token, got, err, o)
		}
		for _, other := range []ss.Sort{ss.Newest, ss.Oldest, ss.ByIndex} {
			q := ss.Query{Sort: other, Offset: got}
			if err := q.Check(); (err == nil) != (other == sort) {
				t.Errorf("a token of order %d in a query of order %d: %v", sort, other, err)
			}
		}
	})
}

func TestOffsetSkip(t *testing.T) {
	t.Parallel()
	for token, skip := range map[string]int{"0": 0, "1": 1, "10000": 10_000, "007": 7, "2147483647": 1<<31 - 1} {
		o, err := ss.ParseOffset(token)
		if err != nil || o != (ss.Offset{Skip: skip}) {
			t.Errorf("%q is read as %+v, %v", token, o, err)
		}
		q := ss.Query{Sort: ss.Oldest, Offset: o, Newer: ss.Some[ss.Timestamp](5), Older: ss.Some[ss.Timestamp](1)}
		if err := q.Check(); err != nil {
			t.Errorf("a number of rows in any listing: %v", err)
		}
	}
	if got := (ss.Offset{Skip: 12}).Token(); got != "12" {
		t.Errorf("token %q", got)
	}
}

func hostileOffsets() []string {
	id := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	return []string{
		"", " ", "-1", "+1", "1.5", "1e3", "0x10", "1_0", "1 ", " 1", "1\n", "2147483648", "99999999999999999999", strings.Repeat("9", 200),
		"n", "o", "i", "_", "n_", "i_", "n1000", "n1000_", "i5_", "x1000_" + id("a"), "N1000_" + id("a"), "_" + id("a"),
		"n_" + id("a"), "o_" + id("a"), "n-10_" + id("a"), "o-10_" + id("a"), "n1.5_" + id("a"), "n 1_" + id("a"), "n253402300799991_" + id("a"),
		"n99999999999999999999_" + id("a"), "i99999999999999999999_" + id("a"), "i1e3_" + id("a"), "i-_" + id("a"),
		"n1000_" + id(""), "n1000_" + id("é"), "n1000_" + id("a\n"), "n1000_" + id("\x00"), "n1000_" + id(strings.Repeat("a", 65)),
		"n1000_YQ==", "n1000_YR", "n1000_Y", "n1000_a+b/", "n1000_" + id("a") + "_", "n1000_" + id("a") + " ", "n1000__" + id("a"),
		"n+1000_" + id("a"), "n01000_" + id("a"), "i+5_" + id("a"), "i-0_" + id("a"), "n1000_YQ\n", "n1000_\r\nYQ", "n-0_" + id("a"),
		"1700000000120:3", "null", "\x00", "\xff", "é", strings.Repeat("n", 1<<20),
	}
}

func TestHostileOffsets(t *testing.T) {
	t.Parallel()
	for _, s := range hostileOffsets() {
		if o, err := ss.ParseOffset(s); !errcode.Is(err, errcode.Invalid) {
			t.Errorf("%.80q is read as %+v, %v", s, o, err)
		}
	}
}

// TestOffsetBounds checks that a token outside newer and older is rejected, because it belongs to another listing.
func TestOffsetBounds(t *testing.T) {
	t.Parallel()
	at := ss.Timestamp(1_700_000_000_120)
	for _, tc := range []struct {
		name         string
		sort         ss.Sort
		newer, older ss.Optional[ss.Timestamp]
		ok           bool
	}{
		{"no bounds", ss.Newest, ss.Optional[ss.Timestamp]{}, ss.Optional[ss.Timestamp]{}, true},
		{"inside", ss.Newest, ss.Some(at - 10), ss.Some(at + 10), true},
		{"before newer", ss.Newest, ss.Some(at + 10), ss.Optional[ss.Timestamp]{}, false},
		{"after older", ss.Newest, ss.Optional[ss.Timestamp]{}, ss.Some(at - 10), false},
		{"oldest, before newer", ss.Oldest, ss.Some(at + 10), ss.Optional[ss.Timestamp]{}, false},
		{"oldest, after older", ss.Oldest, ss.Optional[ss.Timestamp]{}, ss.Some(at - 10), false},
		{"by index there is no telling", ss.ByIndex, ss.Some(at + 10), ss.Some(at - 10), true},
	} {
		q := ss.Query{Sort: tc.sort, Newer: tc.newer, Older: tc.older, Offset: ss.OffsetAfter(tc.sort, &ss.BSO{ID: "a", Modified: at})}
		if err := q.Check(); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestListingClose(t *testing.T) {
	t.Parallel()
	released := 0
	l := ss.NewListing(10, 0, nil, func() { released++ })
	l.Close()
	l.Close()
	if released != 1 {
		t.Errorf("released %d times", released)
	}
	ss.NewListing(10, 0, nil, nil).Close()
}

func FuzzParseOffset(f *testing.F) {
	for _, s := range append(hostileOffsets(), "0", "12", "n1700000000120_YQ", "o1700000000120_Li4", "i-5_e2d1aWR9", "i_YQ") {
		if len(s) < 1000 {
			f.Add(s)
		}
	}
	f.Fuzz(func(t *testing.T, s string) {
		o, err := ss.ParseOffset(s)
		if err != nil {
			if !errcode.Is(err, errcode.Invalid) || o != (ss.Offset{}) {
				t.Fatalf("%q: %+v, %v", s, o, err)
			}
			return
		}
		if o.Skip < 0 || o.After && (!ss.ValidID(o.ID) || o.Modified < 0 || o.Modified > ss.MaxTimestamp) {
			t.Errorf("%q is read as %+v", s, o)
		}
		if token := o.Token(); token != s && o.After {
			t.Errorf("%q is taken for the token %q", s, token)
		}
		if again, err := ss.ParseOffset(o.Token()); err != nil || again != o {
			t.Errorf("%q is read as %+v, and its token as %+v, %v", s, o, again, err)
		}
	})
}
