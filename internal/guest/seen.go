package guest

import (
	"context"
	"hash/maphash"
	"sync"
	"time"
)

// seen remembers which sessions have sent requests, so that the database gets each of them
// once a day.
type seen struct {
	mu      sync.Mutex
	seed    maphash.Seed
	day     time.Time
	done    map[uint64]bool // hashes of sessions that the database has for the day, or pending has; true: their cookie was renewed
	pending map[ID]struct{}
}

const (
	maxSeen    = 200_000 // sessions that are remembered, of which some are forgotten then
	maxPending = 50_000  // while the database is unavailable
	seenStep   = 1000    // sessions in a statement
)

func newSeen() *seen {
	return &seen{seed: maphash.MakeSeed(), done: map[uint64]bool{}, pending: map[ID]struct{}{}}
}

// add records the request of a session. It reports whether its cookie should be renewed: if
// this is the first request of the day that can.
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

// take returns some of the sessions that the database does not have yet.
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

// Saw records that a session has sent a request. The database gets it within a second or
// two, by Repair. With renews, Saw reports whether the answer should renew the cookie, once
// a day, so that it lives as long as the session.
func (s *Service) Saw(id ID, renews bool) (renew bool) { return s.seen.add(id, s.opts.Clock(), renews) }

// FlushSeen writes to the database which sessions have sent requests.
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
