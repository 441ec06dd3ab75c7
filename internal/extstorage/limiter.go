package extstorage

import "sync"

// TenantLimiter limits how many slow operations run at once in a process, and how
// many of them one install may have, so that one does not keep the others out. It
// is safe for concurrent use.
type TenantLimiter struct {
	all, each int

	mu    sync.Mutex
	taken map[Owner]int
	sum   int
}

// NewTenantLimiter allows so many operations, and each install so many of them.
func NewTenantLimiter(all, each int) *TenantLimiter {
	return &TenantLimiter{all: all, each: each, taken: map[Owner]int{}}
}

// Enter takes a place if there is one; then leave, called once, gives it back.
func (s *TenantLimiter) Enter(o Owner) (leave func(), ok bool) {
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
