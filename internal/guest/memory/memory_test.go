package memory_test

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/guest/memory"
)

var start = time.UnixMilli(1_790_000_000_000).UTC()

func newID() guest.ID { return guest.NewID(guest.SessionPrefix, start) }

func locale(t testing.TB, h *memory.Hot, id guest.ID, set ...string) string {
	t.Helper()
	var c guest.Change
	if len(set) > 0 {
		c.Locale = &set[0]
	}
	s, err := h.Session(t.Context(), id, c)
	if err != nil {
		t.Fatal(err)
	}
	return s.Locale
}

// TestClockSteps sets the clock back and forward. Expired entries stay expired, and new entries live for their whole
// life.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	c := clock.NewManual(start)
	h := memory.New(c.Now, 1<<20)
	ctx := t.Context()
	lock := func(owner string) bool {
		t.Helper()
		locked, err := h.Lock(ctx, "key", owner, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return locked
	}
	if err := h.PutCached(ctx, "cached", []byte("x"), time.Minute); err != nil {
		t.Fatal(err)
	}
	id := newID()
	locale(t, h, id, "de")
	c.Advance(guest.SessionLife + time.Second)
	h.Sweep()
	c.Set(start.Add(10 * time.Second))
	if v, _ := h.Cached(ctx, "cached"); v.Found {
		t.Error("a cached value came back")
	}
	if got := locale(t, h, id); got != "" {
		t.Error("a session came back")
	}
	if !lock("a") || lock("b") {
		t.Error("a lock after the step back")
	}
	c.Set(start.Add(-10 * time.Minute)) // once more, while the lock is held
	if lock("b") {
		t.Error("the step back ended a lock")
	}
	c.Advance(6 * time.Second)
	if !lock("b") {
		t.Error("the step back keeps a lock for longer than its life")
	}
	limit := guest.Bucket{Key: "b", Limit: guest.Limit{Events: 60, Per: time.Minute, Burst: 2}}
	admitted := 0
	for i := range 600 { // a minute in steps of 100 ms
		if i%100 == 99 {
			c.Advance(-time.Hour)
		}
		c.Advance(100 * time.Millisecond)
		taken, err := h.Take(ctx, []guest.Bucket{limit})
		if err != nil {
			t.Fatal(err)
		}
		if taken[0].Allowed {
			admitted++
		}
	}
	if admitted < 59 || admitted > 62 {
		t.Errorf("%d of 60 a minute admitted", admitted)
	}
}

// TestFull checks the order of eviction: caches, copies of database content, then the least recently used
// sessions.
func TestFull(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	h := memory.New(clock.NewManual(start).Now, most)
	ctx := t.Context()
	value := bytes.Repeat([]byte("x"), 500)
	var ids []guest.ID
	bucket := guest.Bucket{Key: "b", Limit: guest.Limit{Events: 1, Per: time.Hour, Burst: 1}}
	if _, err := h.Take(ctx, []guest.Bucket{bucket}); err != nil {
		t.Fatal(err)
	}
	add := func(sessions, values int) (cached, answers int) {
		for range sessions {
			ids = append(ids, newID())
			locale(t, h, ids[len(ids)-1], "de")
		}
		for i := range values {
			if err := h.PutCached(ctx, fmt.Sprint("c", i), value, time.Hour); err != nil {
				t.Fatal(err)
			}
			if err := h.PutAnswer(ctx, fmt.Sprint("a", i), [32]byte{}, guest.StoredAnswer{Version: 200, Body: value}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 5000 {
			if v, _ := h.Cached(ctx, fmt.Sprint("c", i)); v.Found {
				cached++
			}
		}
		return cached, answers
	}
	if cached, _ := add(100, 100); cached != 100 {
		t.Errorf("%d cached values before it is full", cached)
	}
	if cached, _ := add(0, 5000); cached > 2000 || cached == 0 {
		t.Errorf("%d cached values fit", cached)
	}
	for _, id := range ids {
		if locale(t, h, id) != "de" {
			t.Fatal("a session made room while there were caches")
		}
	}
	cached, _ := add(20_000, 0)
	if cached > 10 {
		t.Errorf("%d cached values left beside sessions", cached)
	}
	if _, bytes, limit := h.Bytes(); bytes > limit || bytes < limit/2 {
		t.Errorf("%d bytes of %d", bytes, limit)
	}
	if locale(t, h, ids[len(ids)-1]) != "de" {
		t.Error("the last session is gone")
	}
	if locale(t, h, ids[0]) != "" {
		t.Error("the first session is still there")
	}
	if taken, err := h.Take(ctx, []guest.Bucket{bucket}); err != nil || taken[0].Allowed {
		t.Errorf("a limit was forgotten: %+v, %v", taken, err)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	c := clock.NewManual(start)
	h := memory.New(c.Now, 64<<20)
	for i := range 2000 {
		if err := h.PutCached(t.Context(), fmt.Sprint("c", i), []byte("x"), time.Duration(i+1)*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	id := newID()
	locale(t, h, id, "de")
	for _, at := range []int{1, 2, 3, 500, 1990} {
		c.Set(start.Add(time.Duration(at)*time.Second + 1500*time.Millisecond))
		h.Sweep()
		if n, _, _ := h.Bytes(); n > 2000-at+1 || n < 2000-at {
			t.Errorf("after %d seconds: %d entries", at, n)
		}
	}
	for range 40 { // sweeps check and keep a used session
		c.Advance(20 * 24 * time.Hour)
		h.Sweep()
		if locale(t, h, id) != "de" {
			t.Fatal("a used session was swept")
		}
	}
	c.Advance(guest.SessionLife + 2*time.Second)
	h.Sweep()
	if n, bytes, _ := h.Bytes(); n != 0 || bytes != 0 {
		t.Errorf("%d entries with %d bytes are left", n, bytes)
	}
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	h := memory.New(clock.System, 100*memory.SessionBytes*64)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 1000 {
				id := newID()
				locale(t, h, id, "de")
				_ = h.PutCached(t.Context(), fmt.Sprint("c", i%50), []byte("x"), time.Millisecond)
				_, _ = h.Lock(t.Context(), fmt.Sprint("c", i%50), "a", time.Millisecond)
				h.Sweep()
			}
		})
	}
	all.Wait()
}

// TestMemory compares SessionBytes with measured memory.
//
//nolint:paralleltest // others would take memory meanwhile
func TestMemory(t *testing.T) {
	if each := sessionMemory(t, 100_000); each > memory.SessionBytes+64 || each < memory.SessionBytes/2 {
		t.Errorf("%d bytes each", each)
	}
}

func sessionMemory(t testing.TB, n int) int64 {
	t.Helper()
	before := heap()
	h := memory.New(clock.System, int64(n)*2*memory.SessionBytes)
	for range n {
		locale(t, h, newID(), string([]byte("de-AT")))
	}
	each := (heap() - before) / int64(n)
	if entries, _, _ := h.Bytes(); entries != n {
		t.Errorf("%d of %d sessions are left", entries, n)
	}
	return each
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkMillionSessions measures a million sessions: bytes per session, the longest pauses of the garbage collector, and
// reads while it runs.
func BenchmarkMillionSessions(b *testing.B) {
	const n = 1_000_000
	before := heap()
	h := memory.New(clock.System, n*2*memory.SessionBytes)
	ids := make([]guest.ID, n)
	for i := range ids {
		ids[i] = newID()
		locale(b, h, ids[i], "de-AT")
	}
	total := heap() - before - n*16 // without the IDs, whose text is also in the store
	if total > 1<<30 {
		b.Errorf("%d bytes for %d sessions", total, n)
	}
	var took []time.Duration
	b.ResetTimer()
	for i := range b.N {
		at := time.Now()
		if locale(b, h, ids[i%n]) != "de-AT" {
			b.Fatal("a session is gone")
		}
		took = append(took, time.Since(at))
	}
	b.StopTimer()
	b.ReportMetric(float64(total)/n, "B/session")
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
	var gc debug.GCStats
	gc.PauseQuantiles = make([]time.Duration, 101)
	debug.ReadGCStats(&gc)
	b.ReportMetric(float64(gc.PauseQuantiles[99].Microseconds()), "gc-p99-µs")
}
