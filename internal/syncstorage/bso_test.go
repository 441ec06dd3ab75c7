package syncstorage_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/storetest"
)

func TestValidID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{
		"a", "A", "0", " ", "  ", ".", "..", "~", "!", "/", `\`, "{5f2a0b1c-6d1e-4f7a-9a64-2d3f1f0a7a11}", `"`, "'", "%", "a b",
		strings.Repeat("a", 64), strings.Repeat(" ", 64), strings.Repeat("~", 64),
	} {
		if !ss.ValidID(id) {
			t.Errorf("%q is refused", id)
		}
	}
	for _, id := range []string{
		"", strings.Repeat("a", 65), strings.Repeat("a", 1<<20), "A\n", "\nA", "A\nB", "\n", "\r", "\t", "a\tb", "\x00", "a\x00", "\x1f", "\x7f",
		"é", "ż", "\xff", "a\x80", "a\u00a0b", "日本", "🗝", "\u2028",
	} {
		if ss.ValidID(id) {
			t.Errorf("%.70q is taken", id)
		}
	}
}

func TestValidIDIsPrintableASCII(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		want := c >= ' ' && c <= '~'
		for _, id := range []string{string([]byte{byte(c)}), string([]byte{'a', byte(c)}), string([]byte{byte(c), 'a'})} {
			if ss.ValidID(id) != want {
				t.Errorf("ValidID(%q) is %v", id, !want)
			}
		}
	}
}

func TestUpdateCheck(t *testing.T) {
	t.Parallel()
	some := ss.Some[int64]
	for _, tc := range []struct {
		u    ss.Update
		want string
	}{
		{ss.Update{ID: "a"}, ""},
		{ss.Update{ID: "a", SortIndex: some(999_999_999), TTL: some(999_999_999)}, ""},
		{ss.Update{ID: "a", SortIndex: some(-999_999_999), TTL: some(0)}, ""},
		{ss.Update{ID: ""}, "invalid bso: invalid id"},
		{ss.Update{ID: "é"}, "invalid bso: invalid id"},
		{ss.Update{ID: "a", SortIndex: some(1_000_000_000)}, "invalid bso: invalid sortindex"},
		{ss.Update{ID: "a", SortIndex: some(-1_000_000_000)}, "invalid bso: invalid sortindex"},
		{ss.Update{ID: "a", SortIndex: some(-1 << 63)}, "invalid bso: invalid sortindex"},
		{ss.Update{ID: "a", TTL: some(-1)}, "invalid bso: invalid ttl"},
		{ss.Update{ID: "a", TTL: some(1_000_000_000)}, "invalid bso: invalid ttl"},
		{ss.Update{ID: "a", TTL: some(1<<63 - 1)}, "invalid bso: invalid ttl"},
		{ss.Update{ID: "a", SortIndex: ss.Optional[int64]{Value: 1 << 40}, TTL: ss.Optional[int64]{Value: -1}}, ""},
	} {
		err := tc.u.Check()
		if errcode.Message(err) != tc.want || err != nil && !errcode.Is(err, errcode.Invalid) {
			t.Errorf("%+v: %v, want %q", tc.u, err, tc.want)
		}
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	for _, tc := range storetest.MergeCases() {
		var old *ss.BSO
		if tc.First != nil {
			b, _ := ss.Merge(nil, tc.First, storetest.CaseFirst, ss.Direct)
			old = &b
		}
		got, delta := ss.Merge(old, &tc.Second, storetest.CaseSecond, tc.Mode)
		if !sameBSO(got, tc.Want) {
			t.Errorf("%s: %+v, want %+v", tc.Name, got, tc.Want)
		}
		if delta != tc.Delta {
			t.Errorf("%s: %v, want %v", tc.Name, delta, tc.Delta)
		}
	}
}

func sameBSO(a, b ss.BSO) bool {
	same := bytes.Equal(a.Payload, b.Payload)
	a.Payload, b.Payload = nil, nil
	return same && reflect.DeepEqual(a, b)
}

func updates(id string) *rapid.Generator[ss.Update] {
	return rapid.Custom(func(t *rapid.T) ss.Update {
		u := ss.Update{ID: id}
		if rapid.Bool().Draw(t, "with payload") {
			u.Payload = ss.Some(rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "payload"))
		}
		if rapid.Bool().Draw(t, "with sortindex") {
			u.SortIndex = ss.Some(rapid.Int64Range(-ss.MaxSortIndex, ss.MaxSortIndex).Draw(t, "sortindex"))
		}
		if rapid.Bool().Draw(t, "with ttl") {
			u.TTL = ss.Some(rapid.Int64Range(0, 20).Draw(t, "ttl"))
		}
		return u
	})
}

// TestDeltasAddUp checks that deltas add up to the stored records and bytes.
func TestDeltasAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b *ss.BSO
		var sum ss.Delta
		stamp := storetest.CaseFirst
		for _, u := range rapid.SliceOfN(updates("a"), 1, 10).Draw(t, "updates") {
			stamp += ss.Timestamp(rapid.Int64Range(1, 10_000).Draw(t, "later")) * ss.Tick
			next, delta := ss.Merge(b, &u, stamp, ss.MergeMode(rapid.Bool().Draw(t, "from a batch")))
			b, sum = &next, sum.Add(delta)
			if want := (ss.Delta{Records: 1, Bytes: int64(len(b.Payload))}); sum != want {
				t.Fatalf("the deltas sum up to %v, want %v", sum, want)
			}
			if b.Modified > stamp || b.ID != "a" {
				t.Fatalf("at %v: %+v", stamp, b)
			}
		}
	})
}

func TestStage(t *testing.T) {
	t.Parallel()
	for _, tc := range storetest.StageCases() {
		if got := ss.Stage(&tc.First, tc.Second); !reflect.DeepEqual(got, tc.Want) {
			t.Errorf("%s: %+v, want %+v", tc.Name, got, tc.Want)
		}
		if got := ss.Stage(nil, tc.Second); !reflect.DeepEqual(got, tc.Second) {
			t.Errorf("%s, with nothing staged: %+v", tc.Name, got)
		}
	}
}

// TestStageIsMergeInParts checks that staging two updates and merging the result equals merging both, unless the first
// update expires immediately.
func TestStageIsMergeInParts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		one, two := updates("a").Draw(t, "one"), updates("a").Draw(t, "two")
		if one.TTL.Set && one.TTL.Value == 0 {
			one.TTL.Value = 1
		}
		var old *ss.BSO
		if rapid.Bool().Draw(t, "over a record") {
			first := updates("a").Draw(t, "old")
			b, _ := ss.Merge(nil, &first, storetest.CaseFirst, ss.Direct)
			old = &b
		}
		stamp := storetest.CaseFirst + ss.Timestamp(rapid.Int64Range(1, 30).Draw(t, "later"))*1000
		staged := ss.Stage(&one, two)
		whole, delta := ss.Merge(old, &staged, stamp, ss.FromBatch)
		part, first := ss.Merge(old, &one, stamp, ss.FromBatch)
		parts, second := ss.Merge(&part, &two, stamp, ss.FromBatch)
		if !sameBSO(whole, parts) || delta != first.Add(second) {
			t.Errorf("staged: %+v (%v), one by one: %+v (%v)", whole, delta, parts, first.Add(second))
		}
	})
}

func TestLive(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		expiry, horizon ss.Timestamp
		want            bool
	}{{0, 0, true}, {0, ss.MaxTimestamp, true}, {1000, 999, true}, {1000, 1000, false}, {1000, 1001, false}} {
		if got := (&ss.BSO{Expiry: tc.expiry}).Live(tc.horizon); got != tc.want {
			t.Errorf("expiry %d at %d: live is %v", tc.expiry, tc.horizon, got)
		}
	}
}
