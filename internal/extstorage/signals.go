package extstorage

import (
	"sync"

	"holdfast/internal/fair"
)

// maxWaits is how many requests may wait at once, shared among installs: for
// changes, when they ask the database now and then, or for what a client sends.
const maxWaits = 1024

func newWaits() *fair.Pool {
	return fair.New(maxWaits, 0, 0)
}

// EnterWait takes a place among the requests of a process that wait, if there is
// one for the install; leave, called once, gives it back.
func (s *Service) EnterWait(o Owner) (leave func(), ok bool) {
	name := string(o.Tenant) + "/" + string(o.Install)
	if !s.waits.TryAcquire(name, 1) {
		return nil, false
	}
	return func() { s.waits.Release(name, 1) }, true
}

// signals tell those who wait for changes of an install that this process has
// made one.
type signals struct {
	mu      sync.Mutex
	waiting map[Owner]*signal
}

type signal struct {
	made    chan struct{} // closed
	waiters int
}

// wait is a channel that is closed after the next change; leave ends waiting.
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

// notify tells those who wait.
func (s *signals) notify(o Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.waiting[o]; w != nil {
		close(w.made)
		delete(s.waiting, o)
	}
}
