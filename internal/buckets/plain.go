package buckets

import (
	"sync"
	"time"
)

// plainBuckets are buckets without a policy, as they were read a short time ago. A write to one of them needs its name only.
type plainBuckets struct {
	mu sync.Mutex
	at map[ownedName]time.Time // when the bucket was read
}

type ownedName struct {
	owner AccountID
	name  string
}

const cachedPlain = 10_000

// IsPlain reports whether the bucket had no policy when it was read at most KeyDelay ago.
func (s *Service) IsPlain(owner AccountID, name string) bool {
	s.plain.mu.Lock()
	at, ok := s.plain.at[ownedName{owner, name}]
	s.plain.mu.Unlock()
	if !ok {
		return false
	}
	age := s.clock().Sub(at)
	return 0 <= age && age < KeyDelay
}

// NotePlain notes for IsPlain that a bucket that was read at a time has no policy.
func (s *Service) NotePlain(b *Bucket, at time.Time) {
	s.plain.mu.Lock()
	defer s.plain.mu.Unlock()
	if s.plain.at == nil || len(s.plain.at) == cachedPlain {
		s.plain.at = map[ownedName]time.Time{}
	}
	s.plain.at[ownedName{b.Owner, b.Name}] = at
}

func (s *Service) forgetPlain(owner AccountID, name string) {
	s.plain.mu.Lock()
	defer s.plain.mu.Unlock()
	delete(s.plain.at, ownedName{owner, name})
}
