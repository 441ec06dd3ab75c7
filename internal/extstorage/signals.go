package extstorage

import (
	"sync"

	"holdfast/internal/fairshare"
)

const maxWaits = 1024 // requests that wait for changes, per process

// newWaits returns a pool without a queue: a request that finds no place is refused.
func newWaits() *fairshare.Pool {
	return fairshare.New(maxWaits, 0, 0)
}

// EnterWait takes one of the install's places for a long poll or import, if any is left. Call leave once.
func (s *Service) EnterWait(o Owner) (leave func(), ok bool) {
	name := string(o.Tenant) + "/" + string(o.Install)
	if !s.waits.TryAcquire(name, 1) {
		return nil, false
	}
	return func() { s.waits.Release(name, 1) }, true
}

// signals wakes requests that wait for changes made by this process. Changes by others are found by polling.
type signals struct {
	mu      sync.Mutex
	waiting map[Owner]*signal
}

type signal struct {
	made    chan struct{} // closed at the next change
	waiters int
}

// wait subscribes to the next change. Call leave once.
func (s *signals) wait(o Owner) (made <-chan struct{}, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		s.waiting = map[Owner]*signal{}
	}
	w := s.waiting[o]
	if w == nil {
		w = &signal{made: make(chan struct{})}
		s.waiting[o] = w
	}
	w.waiters++
	return w.made, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if w.waiters--; w.waiters == 0 && s.waiting[o] == w {
			delete(s.waiting, o)
		}
	}
}

// notify wakes all that wait for the install.
func (s *signals) notify(o Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.waiting[o]; w != nil {
		close(w.made)
		delete(s.waiting, o)
	}
}
