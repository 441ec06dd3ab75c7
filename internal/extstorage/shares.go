package extstorage

import "sync"

// Shares are places of a process for what takes long, of which no install gets
// more than its share: what one does must not keep the others out. They are safe
// for concurrent use.
type Shares struct {
	all, each int

	mu    sync.Mutex
	taken map[Owner]int
	sum   int
}

// NewShares makes so many places, and as many of them as an install may have.
func NewShares(all, each int) *Shares {
	return &Shares{all: all, each: each, taken: map[Owner]int{}}
}

// Enter takes a place, if there is one; if so leave gives it back, once.
func (s *Shares) Enter(o Owner) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sum == s.all || s.taken[o] == s.each {
		return nil, false
	}
	s.sum++
	s.taken[o]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sum--
		if s.taken[o]--; s.taken[o] == 0 {
			delete(s.taken, o)
		}
	}, true
}
