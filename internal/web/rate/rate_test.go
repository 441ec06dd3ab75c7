package rate_test

import (
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/web/rate"
)

var start = time.Unix(1_790_000_000, 0)

var (
	writes = rate.Limit{Events: 60, Per: time.Minute, Burst: 180}
	reads  = rate.Limit{Events: 200, Per: time.Minute, Burst: 400}
)

func buckets(t testing.TB, l rate.Limit, clients int, now clock.Clock) *rate.Buckets {
	t.Helper()
	b, err := rate.New(l, clients, now)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func allowed(b *rate.Buckets, key string) (n int) {
	for {
		if ok, _ := b.Allow(key, 1); !ok {
			return n
		}
		n++
	}
}

func TestBurstAndRate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit              rate.Limit
		second, ten, hours int // allowed this long after the bucket was empty
	}{
		{writes, 1, 10, 180},
		{reads, 3, 33, 400},
		{rate.Limit{Events: 1, Per: time.Hour, Burst: 1}, 0, 0, 1},
		{rate.Limit{Events: 5, Per: time.Millisecond, Burst: 7}, 7, 7, 7},
	} {
		hands := clock.NewManual(start)
		b := buckets(t, c.limit, 10, hands.Now)
		if n := allowed(b, "a"); n != c.limit.Burst {
			t.Errorf("%+v: %d at once", c.limit, n)
		}
		for _, w := range []struct {
			after time.Duration
			want  int
		}{{time.Second, c.second}, {10 * time.Second, c.ten}, {5 * time.Hour, c.hours}} {
			b := buckets(t, c.limit, 10, hands.Now)
			allowed(b, "a")
			hands.Advance(w.after)
			if n := allowed(b, "a"); n != w.want {
				t.Errorf("%+v: %d after %s, want %d", c.limit, n, w.after, w.want)
			}
		}
	}
}

// bit is the rounding of until.
const bit = time.Microsecond

func TestState(t *testing.T) {
	t.Parallel()
	hands := clock.NewManual(start)
	b := buckets(t, writes, 10, hands.Now)
	for _, c := range []struct {
		after time.Duration
		n     int
		ok    bool
		want  rate.State
	}{
		{0, 1, true, rate.State{Limit: 180, Remaining: 179, Reset: time.Second + bit}},
		{0, 178, true, rate.State{Limit: 180, Remaining: 1, Reset: 179*time.Second + bit}},
		{0, 2, false, rate.State{Limit: 180, Remaining: 1, Reset: 179*time.Second + bit, Retry: time.Second + bit}},
		{500 * time.Millisecond, 2, false, rate.State{Limit: 180, Remaining: 1, Reset: 178_500*time.Millisecond + bit, Retry: 500*time.Millisecond + bit}},
		{500 * time.Millisecond, 2, true, rate.State{Limit: 180, Remaining: 0, Reset: 180*time.Second + bit}},
		{0, 0, true, rate.State{Limit: 180, Remaining: 0, Reset: 180*time.Second + bit}},
		{0, 1000, false, rate.State{Limit: 180, Remaining: 0, Reset: 180*time.Second + bit, Retry: 180*time.Second + bit}},
		{time.Hour, 1000, true, rate.State{Limit: 180, Remaining: 0, Reset: 180*time.Second + bit}},
	} {
		hands.Advance(c.after)
		if ok, s := b.Allow("a", c.n); ok != c.ok || s != c.want {
			t.Errorf("%d after %s: %v, %+v; want %v, %+v", c.n, c.after, ok, s, c.ok, c.want)
		}
	}
	if _, s := b.Allow("b", 1); s.Remaining != 179 {
		t.Errorf("another client has %d", s.Remaining)
	}
}

// A request is allowed after Retry and rejected clearly before. The header's seconds must suffice.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		hands := clock.NewManual(start)
		l := rate.Limit{
			Events: rapid.IntRange(1, 1000).Draw(t, "events"), Per: time.Duration(rapid.Int64Range(1, int64(24*time.Hour)).Draw(t, "per")),
			Burst: rapid.IntRange(1, 1000).Draw(t, "burst"),
		}
		b, err := rate.New(l, 1, hands.Now)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			hands.Advance(time.Duration(rapid.Int64Range(0, int64(l.Per)).Draw(t, "pause")))
			n := rapid.IntRange(1, 2*l.Burst).Draw(t, "n")
			ok, s := b.Allow("a", n)
			if ok != (s.Retry == 0) || s.Remaining < 0 || s.Remaining > l.Burst || s.Limit != l.Burst {
				t.Fatalf("%v, %+v", ok, s)
			}
			if ok {
				continue
			}
			h := http.Header{}
			s.SetHeaders(h)
			if told, err := strconv.Atoi(h.Get("Retry-After")); err != nil || time.Duration(told)*time.Second < s.Retry-10*bit {
				t.Fatalf("told %d for %s, %v", told, s.Retry, err)
			}
			if early := s.Retry - 3*bit; early > 0 {
				hands.Advance(early)
				if ok, _ := b.Allow("a", n); ok {
					t.Fatalf("%+v: let through after %s, told %s", l, early, s.Retry)
				}
				hands.Advance(-early)
			}
			hands.Advance(s.Retry)
			if ok, again := b.Allow("a", n); !ok {
				t.Fatalf("%+v: not let through after %s: %+v", l, s.Retry, again)
			}
		}
	})
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state rate.State
		want  http.Header
	}{
		{rate.State{}, http.Header{}},
		{rate.State{Limit: 180, Remaining: 180}, http.Header{"Ratelimit-Limit": {"180"}, "Ratelimit-Remaining": {"180"}, "Ratelimit-Reset": {"0"}}},
		{
			rate.State{Limit: 180, Reset: 179*time.Second + bit, Retry: time.Millisecond},
			http.Header{"Ratelimit-Limit": {"180"}, "Ratelimit-Remaining": {"0"}, "Ratelimit-Reset": {"179"}, "Retry-After": {"1"}},
		},
	} {
		h := http.Header{}
		if c.state.SetHeaders(h); !reflect.DeepEqual(h, c.want) {
			t.Errorf("%+v: %v, want %v", c.state, h, c.want)
		}
	}
}

func TestClientsAreBounded(t *testing.T) {
	t.Parallel()
	b := buckets(t, rate.Limit{Events: 1, Per: time.Hour, Burst: 2}, 3, clock.NewManual(start).Now)
	for _, key := range []string{"a", "b", "c", "a", "d"} { // d replaces b
		if ok, _ := b.Allow(key, 1); !ok {
			t.Errorf("%s is refused", key)
		}
	}
	for _, c := range []struct {
		key       string
		remaining int
	}{{"a", 0}, {"c", 1}, {"d", 1}, {"b", 2}} {
		if _, s := b.Allow(c.key, 0); s.Remaining != c.remaining {
			t.Errorf("%s has %d, want %d", c.key, s.Remaining, c.remaining)
		}
	}
}

// Buckets fill from the new time on.
func TestClockTurnedBack(t *testing.T) {
	t.Parallel()
	hands := clock.NewManual(start)
	b := buckets(t, writes, 1, hands.Now)
	allowed(b, "a")
	hands.Advance(-time.Hour)
	_, s := b.Allow("a", 1)
	if s.Retry > 2*time.Second {
		t.Errorf("must wait %s", s.Retry)
	}
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	b := buckets(t, rate.Limit{Events: 1, Per: time.Hour, Burst: 100}, 4, clock.NewManual(start).Now)
	var passed atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 400 {
				if ok, _ := b.Allow(strconv.Itoa(i%4), 1); ok {
					passed.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := passed.Load(); n != 400 {
		t.Errorf("%d passed, want 400", n)
	}
}

func TestNilIsUnlimited(t *testing.T) {
	t.Parallel()
	var b *rate.Buckets
	if ok, s := b.Allow("a", 1<<30); !ok || s != (rate.State{}) {
		t.Errorf("%v, %+v", ok, s)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, l := range []rate.Limit{{}, {0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {-1, 1, 1}} {
		if b, err := rate.New(l, 1, clock.System); !errcode.Is(err, errcode.Invalid) || b != nil {
			t.Errorf("%+v: %v", l, err)
		}
	}
	if _, err := rate.New(writes, 0, clock.System); !errcode.Is(err, errcode.Invalid) {
		t.Errorf("no clients: %v", err)
	}
}

func BenchmarkAllow(b *testing.B) {
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
	}
	all := buckets(b, reads, len(keys), clock.System)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			all.Allow(keys[i%len(keys)], 1)
		}
	})
}
