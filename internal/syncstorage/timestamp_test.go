package syncstorage_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	ss "holdfast/internal/syncstorage"
)

func stamps() *rapid.Generator[ss.Timestamp] {
	return rapid.Custom(func(t *rapid.T) ss.Timestamp {
		return ss.Timestamp(rapid.Int64Range(0, int64(ss.MaxTimestamp)/ss.Tick).Draw(t, "ticks")) * ss.Tick
	})
}

func TestParseTimestamp(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in   string
		want ss.Timestamp
		ok   bool
	}{
		{"0", 0, true},
		{"0.00", 0, true},
		{"00", 0, true},
		{"1", 1000, true},
		{"2.01", 2010, true}, // 2009.99… in floating point
		{"0.29", 290, true},
		{"1234567890.1", 1234567890100, true},
		{"1234567890.10", 1234567890100, true},
		{"1234567890.12", 1234567890120, true},
		{"1234567890.129", 1234567890120, true},
		{"1234567890.1299999999999999999999", 1234567890120, true},
		{"001234567890.12", 1234567890120, true},
		{"1.", 1000, true},
		{".5", 500, true},
		{".05", 50, true},
		{".005", 0, true},
		{"253402300799.99", ss.MaxTimestamp, true},
		{"253402300800", ss.MaxTimestamp, true},
		{"18446744073709551616", ss.MaxTimestamp, true},
		{strings.Repeat("9", 64), ss.MaxTimestamp, true},
		{strings.Repeat("0", 63) + "1", 1000, true},

		{"", 0, false},
		{".", 0, false},
		{"..", 0, false},
		{"1..2", 0, false},
		{"1.2.3", 0, false},
		{"-1", 0, false},
		{"-0", 0, false},
		{"+1", 0, false},
		{"1-", 0, false},
		{"1e3", 0, false},
		{"1.e3", 0, false},
		{"0x10", 0, false},
		{"1_000", 0, false},
		{"1,5", 0, false},
		{"nan", 0, false},
		{"NaN", 0, false},
		{"inf", 0, false},
		{"Infinity", 0, false},
		{" 1", 0, false},
		{"1 ", 0, false},
		{"1\n", 0, false},
		{"1\x00", 0, false},
		{"١", 0, false}, // a digit in another script
		{"1.5٠", 0, false},
		{"sammich", 0, false},
		{strings.Repeat("9", 65), 0, false},
		{strings.Repeat("1", 1<<20), 0, false},
	} {
		got, ok := ss.ParseTimestamp(tc.in)
		if got != tc.want || ok != tc.ok {
			t.Errorf("ParseTimestamp(%.70q) = %d, %v, want %d, %v", tc.in, got, ok, tc.want, tc.ok)
		}
	}
}

func TestTimestampString(t *testing.T) {
	t.Parallel()
	for ts, want := range map[ss.Timestamp]string{
		0: "0.00", 10: "0.01", 90: "0.09", 100: "0.10", 990: "0.99", 1000: "1.00", 2010: "2.01",
		1234567890100: "1234567890.10", 1234567890010: "1234567890.01", ss.MaxTimestamp: "253402300799.99",
	} {
		if got := ts.String(); got != want {
			t.Errorf("%d is written %q, want %q", int64(ts), got, want)
		}
		if got := string(ts.Append([]byte("at "))); got != "at "+want {
			t.Errorf("%d is appended as %q", int64(ts), got)
		}
	}
}

// TestTimestampRoundTrip includes added and dropped zeros.
func TestTimestampRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ts := stamps().Draw(t, "stamp")
		s := ts.String()
		for _, s := range []string{s, s + "0", "0" + s, strings.TrimRight(s, "0")} {
			if got, ok := ss.ParseTimestamp(s); !ok || got != ts {
				t.Errorf("%q is read as %d, %v, want %d", s, got, ok, ts)
			}
		}
	})
}

func TestAt(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		in   time.Time
		want ss.Timestamp
	}{
		{"epoch", time.UnixMilli(0), 0},
		{"floored to the tick", time.UnixMilli(1_700_000_000_129), 1_700_000_000_120},
		{"on the tick", time.UnixMilli(1_700_000_000_120), 1_700_000_000_120},
		{"nanoseconds", time.Unix(1, 19_999_999), 1010},
		{"another zone", time.UnixMilli(1_700_000_000_120).In(time.FixedZone("x", -11*3600)), 1_700_000_000_120},
		{"before the epoch", time.UnixMilli(-1), 0},
		{"no time at all", time.Time{}, 0},
		{"the last", time.UnixMilli(int64(ss.MaxTimestamp) + 9), ss.MaxTimestamp},
		{"after the last", time.Unix(math.MaxInt32*1000, 0), ss.MaxTimestamp},
	} {
		if got := ss.At(tc.in); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
	if got := ss.Timestamp(1_700_000_000_120).Time(); !got.Equal(time.UnixMilli(1_700_000_000_120)) || got.Location() != time.UTC {
		t.Errorf("Time is %v", got)
	}
}

func TestNextStamp(t *testing.T) {
	t.Parallel()
	const now ss.Timestamp = 1_700_000_000_120
	for _, tc := range []struct {
		name      string
		now, last ss.Timestamp
		want      ss.Timestamp
	}{
		{"the first", now, 0, now},
		{"the clock runs", now, now - 10, now},
		{"the clock does not advance", now, now, now + 10},
		{"the clock steps back", now, now + 3_600_000, now + 3_600_010},
		{"between ticks", now + 9, 0, now},
		{"between ticks, within one", now + 9, now, now + 10},
		{"between ticks, after one", now + 9, now - 10, now},
		{"a clock before the epoch's first tick", 0, 0, 10},
	} {
		if got := ss.NextStamp(tc.now, tc.last); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

// TestStampsGrow checks that stamps are multiples of Tick, above the last stamp and not before the clock.
func TestStampsGrow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		last := ss.Timestamp(0)
		for _, now := range rapid.SliceOf(rapid.Int64Range(0, 1<<40)).Draw(t, "clock") {
			next := ss.NextStamp(ss.Timestamp(now), last)
			if next <= last || next%ss.Tick != 0 || next <= ss.Timestamp(now)-ss.Tick {
				t.Fatalf("stamp %d at %d after %d", next, now, last)
			}
			last = next
		}
	})
}

func TestHorizon(t *testing.T) {
	t.Parallel()
	if ss.Horizon(5, 7) != 7 || ss.Horizon(7, 5) != 7 || ss.Horizon(7, 7) != 7 {
		t.Error("the horizon is not the later of the clock and the stamp")
	}
}

func TestExpiresAt(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		stamp ss.Timestamp
		ttl   int64
		want  ss.Timestamp
	}{
		{1_700_000_000_120, 0, 1_700_000_000_120},
		{1_700_000_000_120, 1, 1_700_000_001_120},
		{1_700_000_000_120, ss.MaxTTL, 1_700_000_000_120 + 999_999_999_000},
		{ss.MaxTimestamp, ss.MaxTTL, ss.MaxTimestamp},
		{ss.MaxTimestamp - 1000, 1, ss.MaxTimestamp},
	} {
		if got := ss.ExpiresAt(tc.stamp, tc.ttl); got != tc.want {
			t.Errorf("%v and %d s: %d, want %d", tc.stamp, tc.ttl, got, tc.want)
		}
	}
}

func FuzzParseTimestamp(f *testing.F) {
	for _, s := range []string{"", ".", "0", "2.01", "1.", ".5", "-1", "nan", "1e3", "253402300799.99", "99999999999999999999", "1.2.3", "٣"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ts, ok := ss.ParseTimestamp(s)
		switch {
		case !ok && ts != 0:
			t.Errorf("%q is refused and read as %d", s, ts)
		case ok && (ts < 0 || ts > ss.MaxTimestamp || ts%ss.Tick != 0):
			t.Errorf("%q is read as %d, which is no stamp", s, ts)
		case ok && strings.Trim(s, "0123456789.") != "":
			t.Errorf("%q is read as %d", s, ts)
		}
		if again, ok := ss.ParseTimestamp(ts.String()); !ok || again != ts {
			t.Errorf("%q is read as %d and written as %q", s, ts, ts)
		}
	})
}
