package guest

import (
	"context"
	"hash/maphash"
	"sync"
	"time"
)

// seen tracks active sessions, so that each is written to the database once a day.
type seen struct {
	mu      sync.Mutex
	seed    maphash.Seed
	day     time.Time
	done    map[uint64]bool // hashes of today's sessions, written or pending; the value says whether the cookie was renewed
	pending map[ID]struct{}
}

const (
	maxSeen    = 200_000 // remembered sessions; beyond it, some are forgotten
	maxPending = 50_000  // while the database is unavailable
	seenStep   = 1000    // sessions per statement
)

// newSeen returns an empty set.
func newSeen() *seen {
	return &seen{seed: maphash.MakeSeed(), done: map[uint64]bool{}, pending: map[ID]struct{}{}}
}

// add notes a session. It returns true if its cookie should be renewed now.
func (s *seen) add(id ID, now time.Time, renews bool) bool {
	key := maphash.String(s.seed, string(id))
	s.mu.Lock()
	defer s.mu.Unlock()
	if day := now.UTC().Truncate(24 * time.Hour); !day.Equal(s.day) || len(s.done) >= maxSeen {
		s.day, s.done = day, map[uint64]bool{}
	}
	renewed, known := s.done[key]
	if !known {
		if len(s.pending) >= maxPending {
			return false
		}
		s.pending[id] = struct{}{}
	}
	s.done[key] = renewed || renews
	return renews && !renewed
}

// take removes up to seenStep sessions to write.
func (s *seen) take() (some []ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.pending {
		if len(some) == seenStep {
			break
		}
		some = append(some, id)
		delete(s.pending, id)
	}
	return some
}

// put returns sessions that could not be written.
func (s *seen) put(some []ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range some {
		s.pending[id] = struct{}{}
	}
}

// Saw records a session's request; Repair writes it within a second or two. With renews, Saw reports once a day that
// the answer should renew the cookie, whose life then follows the session's.
func (s *Service) Saw(id ID, renews bool) (renew bool) { return s.seen.add(id, s.opts.Clock(), renews) }

// FlushSeen writes all noted sessions, e.g. at shutdown.
func (s *Service) FlushSeen(ctx context.Context) error {
	for {
		some := s.seen.take()
		if len(some) == 0 {
			return nil
		}
		if err := s.opts.Store.MarkSeen(ctx, some, s.opts.Clock()); err != nil {
			s.seen.put(some)
			return err
		}
	}
}
