package memory_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/guest/memory"
)

var start = time.UnixMilli(1_790_000_000_000).UTC()

func get(t *testing.T, h *memory.Hot, id guest.ID) (guest.Session, bool) {
	t.Helper()
	s, found, err := h.Session(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return s, found
}

func put(t *testing.T, h *memory.Hot, locale string) guest.Session {
	t.Helper()
	s := guest.Session{ID: guest.NewID(guest.SessionPrefix, start), Created: start, Preferences: guest.Preferences{Locale: locale}}
	if err := h.PutSession(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	c := clock.NewManual(start)
	h := memory.New(c.Now, 1<<20)
	used, unused := put(t, h, "de"), put(t, h, "en")
	c.Advance(guest.SessionLife - time.Second)
	if got, found := get(t, h, used.ID); !found || got != used {
		t.Errorf("before its end: %v %v", got, found)
	}
	if n, _ := h.Sweep(t.Context(), c.Now(), 100); n != 0 {
		t.Errorf("%d were swept early", n)
	}
	c.Advance(time.Second)
	if _, found := get(t, h, unused.ID); found {
		t.Error("a session lives too long")
	}
	if _, found := get(t, h, used.ID); !found {
		t.Error("a read does not extend the life of a session")
	}
	c.Advance(2 * guest.SessionLife)
	if n, _ := h.Sweep(t.Context(), c.Now(), 100); n != 1 {
		t.Errorf("%d were swept", n)
	}
	if n, _ := h.Len(); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// A clock that is set back resurrects nothing.
func TestClockBack(t *testing.T) {
	t.Parallel()
	c := clock.NewManual(start)
	h := memory.New(c.Now, 1<<20)
	s := put(t, h, "de")
	c.Advance(guest.SessionLife)
	if _, found := get(t, h, s.ID); found {
		t.Error("it has not expired")
	}
	c.Set(start)
	if _, found := get(t, h, s.ID); found {
		t.Error("an expired session came back")
	}
}

func TestFull(t *testing.T) {
	t.Parallel()
	h := memory.New(clock.NewManual(start).Now, 0) // one in each shard
	_, most := h.Len()
	var all []guest.Session
	for range 1000 {
		all = append(all, put(t, h, "de"))
	}
	if n, _ := h.Len(); n > most || n < most/2 {
		t.Errorf("%d sessions, of at most %d", n, most)
	}
	if _, found := get(t, h, all[999].ID); !found {
		t.Error("the last one is gone")
	}
	if _, found := get(t, h, all[0].ID); found {
		t.Error("the first one is still there")
	}
	if err := h.DropSession(t.Context(), all[999].ID); err != nil {
		t.Fatal(err)
	}
	if _, found := get(t, h, all[999].ID); found {
		t.Error("a dropped session is there")
	}
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	h := memory.New(clock.System, 100*memory.SessionBytes)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 2000 {
				s := put(t, h, "de")
				if got, found := get(t, h, s.ID); found && got != s {
					t.Errorf("%v, want %v", got, s)
				}
				_, _ = h.Sweep(t.Context(), time.Now(), 10)
			}
		})
	}
	all.Wait()
}

// SessionBytes is what a session takes.
//
//nolint:paralleltest // others would take memory meanwhile
func TestMemory(t *testing.T) {
	const n = 100_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	h := memory.New(clock.System, 2*n*memory.SessionBytes)
	for range n {
		put(t, h, string([]byte("de-AT")))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := int64(after.HeapAlloc-before.HeapAlloc) / n
	if n, _ := h.Len(); n == 0 || each > memory.SessionBytes || each < memory.SessionBytes/3 {
		t.Errorf("%d bytes each", each)
	}
}
