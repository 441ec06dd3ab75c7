// Package memory implements guest hot state in process memory.
package memory

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/guest/backend"
)

// Hot implements backend.Hot. When full, it evicts least recently used entries: first caches, then copies of database
// content, then sessions, and counters last. It is safe for concurrent use.
type Hot struct {
	watch  watch
	seed   maphash.Seed
	most   int64 // bytes
	shards [shards]shard

	suspended suspensions
	changes   changes // see Keep
}

var _ backend.Hot = (*Hot)(nil)

const shards = 64

// class says in which order entries are evicted.
type class uint8

const (
	caches   class = iota
	copies         // answers
	sessions       // and their searches
	counters       // and locks
	classes
)

// shard holds a part of the entries, with its own lock.
type shard struct {
	mu    sync.Mutex
	byKey map[string]*entry
	used  [classes]entry // LRU rings: next is the most, prev the least recently used
	wheel map[int64][]*entry
	swept int64 // second up to which the wheel was swept
	bytes int64
}

// entry is a key with its value.
type entry struct {
	key        string
	value      any
	expires    int64 // in watch microseconds
	prev, next *entry
	due        int64 // second on the wheel, not after the second of expiry
	slot       int32 // index in that second
	size       int32
	class      class
}

// entryBytes approximates an entry without key and value.
const entryBytes = 160

// SessionBytes approximates a session with preferences but no lists.
const SessionBytes = 400

// New returns a Hot with an approximate maximum size.
func New(now clock.Clock, bytes int64) *Hot {
	h := &Hot{watch: watch{clock: now}, seed: maphash.MakeSeed(), most: bytes}
	for i := range h.shards {
		s := &h.shards[i]
		s.byKey, s.wheel = map[string]*entry{}, map[int64][]*entry{}
		for c := range s.used {
			s.used[c].prev, s.used[c].next = &s.used[c], &s.used[c]
		}
	}
	return h
}

// watch is a monotonic clock based on wall time: it neither stops nor goes back with the wall clock, so expired
// entries stay expired.
type watch struct {
	clock clock.Clock
	mu    sync.Mutex
	last  int64 // wall clock, in microseconds
	total int64 // microseconds
}

// read returns microseconds.
func (w *watch) read() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock().UnixMicro()
	if w.last == 0 {
		w.last, w.total = now, int64(time.Hour/time.Microsecond)
	}
	w.total += max(0, now-w.last)
	w.last = now
	return w.total
}

// lock locks the shard of a key. The caller unlocks it.
func (h *Hot) lock(key string) (s *shard, now int64) {
	s = &h.shards[maphash.String(h.seed, key)%shards]
	s.mu.Lock()
	return s, h.watch.read()
}

// get returns nil for a missing or expired key.
func (s *shard) get(key string, now int64) *entry {
	e := s.byKey[key]
	if e == nil {
		return nil
	}
	if e.expires <= now {
		s.drop(e)
		return nil
	}
	e.unlink()
	s.link(e)
	return e
}

// item is an entry to store.
type item struct {
	key   string
	class class
	value any
	size  int // bytes without the key
	life  time.Duration
}

// put stores an item and evicts others if the shard is full. The caller holds the lock.
func (h *Hot) put(s *shard, now int64, i item) {
	e := s.byKey[i.key]
	if e == nil {
		e = &entry{key: i.key, class: i.class, due: -1}
		s.byKey[i.key] = e
	} else {
		e.unlink()
	}
	e.value = i.value
	s.link(e)
	s.extend(e, now, i.life)
	h.resize(s, e, i.size)
}

func (h *Hot) resize(s *shard, e *entry, size int) {
	size += entryBytes + len(e.key)
	s.bytes += int64(size) - int64(e.size)
	e.size = int32(size)
	for c := caches; c < classes && s.bytes > h.most/shards; {
		oldest := s.used[c].prev
		if oldest == &s.used[c] || oldest == e {
			c++
			continue
		}
		s.drop(oldest)
	}
}

// extend postpones the expiry, but leaves the entry in its place on the wheel.
func (s *shard) extend(e *entry, now int64, life time.Duration) {
	e.expires = now + life.Microseconds()
	if due := second(e.expires) + 1; e.due < 0 || due < e.due {
		s.dequeue(e)
		s.enqueue(e, due)
	}
}

func second(micros int64) int64 { return micros / 1e6 }

func (s *shard) enqueue(e *entry, due int64) {
	e.due, e.slot = due, int32(len(s.wheel[due]))
	s.wheel[due] = append(s.wheel[due], e)
}

func (s *shard) dequeue(e *entry) {
	if e.due < 0 {
		return
	}
	all := s.wheel[e.due]
	last := all[len(all)-1]
	all[e.slot], last.slot = last, e.slot
	all[len(all)-1] = nil
	if len(all) == 1 {
		delete(s.wheel, e.due)
	} else {
		s.wheel[e.due] = all[:len(all)-1]
	}
	e.due = -1
}

func (s *shard) drop(e *entry) {
	e.unlink()
	s.dequeue(e)
	delete(s.byKey, e.key)
	s.bytes -= int64(e.size)
}

func (s *shard) link(e *entry) {
	root := &s.used[e.class]
	e.prev, e.next = root, root.next
	e.next.prev, root.next = e, e
}

func (e *entry) unlink() { e.prev.next, e.next.prev = e.next, e.prev }

// sweepStep is the number of entries that a sweep checks per shard lock.
const sweepStep = 500

func (h *Hot) Sweep() (n int) {
	now := h.watch.read()
	for i := range h.shards {
		for more := true; more; {
			var dropped int
			dropped, more = h.shards[i].sweep(now)
			n += dropped
		}
	}
	return n
}

// sweep checks some of the due entries, and reports whether more are due.
func (s *shard) sweep(now int64) (dropped int, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := sweepStep
	look := func(at int64) bool {
		for all := s.wheel[at]; len(all) > 0; all = s.wheel[at] {
			if left == 0 {
				return false
			}
			left--
			e := all[len(all)-1]
			if e.expires <= now {
				s.drop(e)
				dropped++
				continue
			}
			s.dequeue(e) // extended
			s.enqueue(e, second(e.expires)+1)
		}
		return true
	}
	until := second(now)
	if until-s.swept > int64(len(s.wheel)) {
		for at := range s.wheel {
			if at <= until && !look(at) {
				return dropped, true
			}
		}
		s.swept = until
		return dropped, false
	}
	for ; s.swept < until; s.swept++ {
		if !look(s.swept + 1) {
			return dropped, true
		}
	}
	return dropped, false
}

// sweepEvery is the maximum delay between expiry and removal.
const sweepEvery = time.Second

func (h *Hot) Run(ctx context.Context) {
	for clock.Sleep(ctx, sweepEvery) {
		h.Sweep()
	}
}

func (h *Hot) Bytes() (entries int, bytes, maxBytes int64) {
	for i := range h.shards {
		s := &h.shards[i]
		s.mu.Lock()
		entries, bytes = entries+len(s.byKey), bytes+s.bytes
		s.mu.Unlock()
	}
	return entries, bytes, h.most
}

func (h *Hot) Ping(context.Context) error { return nil }
