// Package memory keeps the hot state of guest in the process.
package memory

import (
	"container/list"
	"context"
	"sync"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
)

// Hot implements guest.Hot. When it is full, the session that was not used for longest
// makes room. It is safe for concurrent use.
type Hot struct {
	now    clock.Clock
	shards [shards]shard
}

// shards divide the sessions by the last character of their IDs, so that requests of
// different sessions seldom wait for each other.
const shards = 32

// shard has sessions in the order of their last use, which is that of their expiry.
type shard struct {
	mu    sync.Mutex
	most  int
	byID  map[guest.ID]*list.Element
	order *list.List // of *entry, the last used first
}

type entry struct {
	guest.Session
	expires time.Time
}

// SessionBytes is about the memory of a session.
const SessionBytes = 600

// New returns a Hot that keeps sessions in about as many bytes.
func New(now clock.Clock, bytes int64) *Hot {
	h := &Hot{now: now}
	for i := range h.shards {
		h.shards[i] = shard{most: max(1, int(bytes/SessionBytes/shards)), byID: map[guest.ID]*list.Element{}, order: list.New()}
	}
	return h
}

func (h *Hot) shard(id guest.ID) *shard {
	if id == "" {
		return &h.shards[0]
	}
	return &h.shards[id[len(id)-1]%shards]
}

// Session implements guest.Hot.
func (h *Hot) Session(_ context.Context, id guest.ID) (guest.Session, bool, error) {
	now := h.now()
	s := h.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	at, found := s.byID[id]
	if !found {
		return guest.Session{}, false, nil
	}
	e := at.Value.(*entry)
	if !now.Before(e.expires) {
		s.drop(at)
		return guest.Session{}, false, nil
	}
	s.use(at, now)
	return e.Session, true, nil
}

// PutSession implements guest.Hot.
func (h *Hot) PutSession(_ context.Context, session guest.Session) error {
	now := h.now()
	s := h.shard(session.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	at, found := s.byID[session.ID]
	if !found {
		if s.order.Len() >= s.most {
			s.drop(s.order.Back())
		}
		at = s.order.PushFront(&entry{})
		s.byID[session.ID] = at
	}
	at.Value.(*entry).Session = session
	s.use(at, now)
	return nil
}

// DropSession implements guest.Hot.
func (h *Hot) DropSession(_ context.Context, id guest.ID) error {
	s := h.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, found := s.byID[id]; found {
		s.drop(at)
	}
	return nil
}

// Sweep removes at most limit sessions that have expired, and returns their number.
func (h *Hot) Sweep(_ context.Context, now time.Time, limit int) (n int, err error) {
	for i := range h.shards {
		s := &h.shards[i]
		s.mu.Lock()
		for last := s.order.Back(); n < limit && last != nil && !now.Before(last.Value.(*entry).expires); last = s.order.Back() {
			s.drop(last)
			n++
		}
		s.mu.Unlock()
	}
	return n, nil
}

// Len returns the number of sessions, and the largest number.
func (h *Hot) Len() (n, most int) {
	for i := range h.shards {
		s := &h.shards[i]
		s.mu.Lock()
		n, most = n+s.order.Len(), most+s.most
		s.mu.Unlock()
	}
	return n, most
}

// use extends the life of a session. The clock may have been set back: no session then
// lives longer than the one before it.
func (s *shard) use(at *list.Element, now time.Time) {
	at.Value.(*entry).expires = now.Add(guest.SessionLife)
	s.order.MoveToFront(at)
}

func (s *shard) drop(at *list.Element) {
	delete(s.byID, at.Value.(*entry).ID)
	s.order.Remove(at)
}
