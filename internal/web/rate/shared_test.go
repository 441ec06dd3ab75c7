package rate_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/web/rate"
)

var tenant = rate.Limit{Events: 20, Per: time.Second, Burst: 80}

func shared(t testing.TB, l rate.Limit, groups int, now clock.Clock) *rate.Shared {
	t.Helper()
	b, err := rate.NewShared(l, groups, now)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func taken(b *rate.Shared, member string) (n int) {
	for {
		if ok, _ := b.Allow("g", member, 1); !ok {
			return n
		}
		n++
	}
}

// A single member gets all but the reserve. Other members share the reserve and then the gained tokens.
func TestSharedBurst(t *testing.T) {
	t.Parallel()
	hands := clock.NewManual(start)
	b := shared(t, tenant, 10, hands.Now)
	if n := taken(b, "a"); n != 70 {
		t.Errorf("alone it gets %d", n)
	}
	if b, c, d, e := taken(b, "b"), taken(b, "c"), taken(b, "d"), taken(b, "e"); b != 7 || c != 2 || d != 1 || e != 0 {
		t.Errorf("of the reserve others get %d, %d, %d and %d", b, c, d, e)
	}
	hands.Advance(500 * time.Millisecond)
	if a, e := taken(b, "a"), taken(b, "e"); a != 0 || e < 5 {
		t.Errorf("of 10 that flow in the first gets %d and one that comes %d", a, e)
	}
	hands.Advance(time.Hour)
	if n := taken(b, "a"); n != 70 {
		t.Errorf("later it gets %d", n)
	}
	if ok, _ := b.Allow("other group", "b", 70); !ok {
		t.Error("another group is refused")
	}
}

func TestSharedState(t *testing.T) {
	t.Parallel()
	hands := clock.NewManual(start)
	b := shared(t, tenant, 10, hands.Now)
	for _, c := range []struct {
		after  time.Duration
		member string
		n      int
		ok     bool
		want   rate.State
	}{
		{0, "a", 1, true, rate.State{Limit: 80, Remaining: 69, Reset: 50*time.Millisecond + bit}},
		{0, "a", 69, true, rate.State{Limit: 80, Remaining: 0, Reset: 3500*time.Millisecond + bit}},
		{0, "a", 1, false, rate.State{Limit: 80, Remaining: 0, Reset: 3500*time.Millisecond + bit, Retry: 50*time.Millisecond + bit}},
		{0, "b", 0, true, rate.State{Limit: 80, Remaining: 7, Reset: 3500*time.Millisecond + bit}},
		{0, "b", 10, true, rate.State{Limit: 80, Remaining: 0, Reset: 4*time.Second + bit}},
		// b owes 10 of its share of 35, so it must leave part of the reserve.
		{0, "b", 1, false, rate.State{Limit: 80, Remaining: 0, Reset: 4*time.Second + bit, Retry: 181_250*time.Microsecond + bit}},
		// a owes 70, so it must leave all of the reserve.
		{0, "a", 1, false, rate.State{Limit: 80, Remaining: 0, Reset: 4*time.Second + bit, Retry: 550*time.Millisecond + bit}},
		{550 * time.Millisecond, "a", 1, true, rate.State{Limit: 80, Remaining: 0, Reset: 3500*time.Millisecond + bit}},
		{time.Hour, "a", 0, true, rate.State{Limit: 80, Remaining: 70}},
		{0, "a", 1000, true, rate.State{Limit: 80, Remaining: 0, Reset: 4*time.Second + bit}},
	} {
		hands.Advance(c.after)
		if c.n > 0 {
			if ok, _ := b.Check("g", c.member, c.n); ok != c.ok {
				t.Errorf("%s, %d: the check says %v", c.member, c.n, ok)
			}
		}
		ok, s := b.Allow("g", c.member, c.n)
		for _, d := range []struct {
			got  *time.Duration
			want time.Duration
		}{{&s.Reset, c.want.Reset}, {&s.Retry, c.want.Retry}} {
			if (*d.got - d.want).Abs() <= 2*bit {
				*d.got = d.want
			}
		}
		if ok != c.ok || s != c.want {
			t.Errorf("%s, %d: %v, %+v, want %v, %+v", c.member, c.n, ok, s, c.ok, c.want)
		}
	}
}

// Members with unlimited demand get equal numbers of tokens. A member that demands less than its share gets everything.
func TestSharedFairly(t *testing.T) {
	t.Parallel()
	hands := clock.NewManual(start)
	b := shared(t, tenant, 10, hands.Now)
	got := map[string]int{}
	ask := func(name string, times int) {
		for range times {
			if ok, _ := b.Allow("g", name, 1); ok {
				got[name]++
			}
		}
	}
	minute := func() {
		clear(got)
		for tick := range 6000 { // 10 ms each
			hands.Advance(10 * time.Millisecond)
			ask("greedy 1", 5)
			ask("greedy 2", 2)
			ask("greedy 3", 1)
			if tick%25 == 0 {
				ask("modest", 1)
			}
		}
	}
	minute() // uses up the burst
	minute()
	if got["modest"] < 239 { // expected: 240, or 4 a second; the share is 5
		t.Errorf("modest got %d of 240", got["modest"])
	}
	sum := got["modest"]
	for i := range 3 {
		n := got[fmt.Sprint("greedy ", i+1)]
		sum += n
		if n < 280 || n > 360 { // expected: 320
			t.Errorf("greedy %d got %d", i+1, n)
		}
	}
	if sum < 1195 || sum > 1205 { // expected: 20 a second
		t.Errorf("all together got %d", sum)
	}
}

func TestSharedRetryAfter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		hands := clock.NewManual(start)
		l := rate.Limit{
			Events: rapid.IntRange(1, 1000).Draw(t, "events"), Per: time.Duration(rapid.Int64Range(1e6, int64(time.Hour)).Draw(t, "per")),
			Burst: rapid.IntRange(1, 200).Draw(t, "burst"),
		}
		b, err := rate.NewShared(l, 1, hands.Now)
		if err != nil {
			t.Fatal(err)
		}
		for range 30 {
			hands.Advance(time.Duration(rapid.Int64Range(0, int64(l.Per)).Draw(t, "pause")))
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "member")
			n := rapid.IntRange(1, l.Burst+l.Burst/8).Draw(t, "n")
			ok, s := b.Allow("g", name, n)
			if ok != (s.Retry == 0) || s.Remaining < 0 || s.Remaining > l.Burst || s.Limit != l.Burst {
				t.Fatalf("%v, %+v", ok, s)
			}
			if ok {
				continue
			}
			if s.Remaining > 0 {
				if ok, _ := b.Check("g", name, 1); !ok {
					t.Fatalf("%+v has nothing left", s)
				}
			}
			hands.Advance(s.Retry)
			if ok, again := b.Allow("g", name, n); !ok {
				t.Fatalf("%+v: not let through after %s: %+v", l, s.Retry, again)
			}
		}
	})
}

func TestTighter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ a, b rate.State }{ // a is tighter
		{rate.State{Limit: 9, Remaining: 1}, rate.State{}},
		{rate.State{Limit: 9, Remaining: 1}, rate.State{Limit: 5, Remaining: 2}},
		{rate.State{Limit: 9, Remaining: 1, Reset: 2}, rate.State{Limit: 5, Remaining: 1, Reset: 1}},
		{rate.State{Limit: 9, Remaining: 5, Retry: 1}, rate.State{Limit: 5, Remaining: 1}},
		{rate.State{Limit: 9, Remaining: 1, Retry: 2}, rate.State{Limit: 5, Remaining: 0, Retry: 1}},
	} {
		if c.a.Tighter(c.b) != c.a || c.b.Tighter(c.a) != c.a {
			t.Errorf("%+v and %+v", c.a, c.b)
		}
	}
}

func TestNewSharedRefuses(t *testing.T) {
	t.Parallel()
	for _, l := range []rate.Limit{{}, {0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {-1, 1, 1}} {
		if b, err := rate.NewShared(l, 1, clock.System); !errcode.Is(err, errcode.Invalid) || b != nil {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

func BenchmarkShared(b *testing.B) {
	members := make([]string, 1000)
	for i := range members {
		members[i] = fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
	}
	all := shared(b, rate.Limit{Events: 1_000_000, Per: time.Second, Burst: 2_000_000}, 10, clock.System)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		all.Allow("00000000-0000-4000-8000-000000000001", members[i%len(members)], 1)
	}
}
