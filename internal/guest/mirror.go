package guest

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/ident"
)

// DoOnce does a step of the store with the answers of Hot in front: a repeated request seldom needs
// the database, and a second one at the same time waits for nobody. The database decides
// when Hot has lost or cannot tell the answer.
func DoOnce[R any](ctx context.Context, s *Service, m Mutation, step func() (Once[R], error)) (o Once[R], err error) {
	key, owner := m.CompositeKey(), ident.New()
	claim, err := s.opts.Hot.ClaimAnswer(ctx, key, owner)
	switch {
	case s.opts.Degraded.Without("answer", err):
	case err != nil:
		return o, err
	case claim.Done:
		o, _, err = Begin[R](&m, claim.Answer, true, claim.Digest == m.Digest)
		return o, err
	case !claim.Claimed:
		return o, ErrInFlight
	}
	o, err = step()
	after := context.WithoutCancel(ctx) // the client may have left
	if err == nil {
		if a, err := o.stored(&m); err == nil && s.opts.Hot.PutAnswer(after, key, m.Digest, a) == nil {
			return o, nil
		}
	}
	s.opts.Degraded.Without("answer", s.opts.Hot.ReleaseAnswer(after, key, owner)) // a repeated request asks the database
	return o, err
}

// onWishlist is DoOnce for a step that changes the wishlist. The mirror of the wishlist is deleted:
// before, so that a process that ends between the commit and the deletion leaves no old copy, and
// after.
func onWishlist[R any](ctx context.Context, s *Service, m Mutation, step func() (Once[R], error)) (Once[R], error) {
	var end sync.WaitGroup
	defer end.Wait()
	return DoOnce(ctx, s, m, func() (Once[R], error) {
		blocked := s.opts.Hot.BlockMirror(ctx, m.Session) == nil
		if !blocked {
			s.mirrors.distrust(m.Session)
		}
		o, err := step()
		// At the same time as the answer is stored, which saves a round trip.
		end.Go(func() { s.dropMirror(context.WithoutCancel(ctx), m.Session, blocked) })
		return o, err
	})
}

// dropMirror deletes the mirror after a change, which has blocked it or not. If it cannot,
// Repair does.
func (s *Service) dropMirror(ctx context.Context, id ID, blocked bool) {
	drop := s.opts.Hot.DropMirror
	if blocked {
		drop = s.opts.Hot.UnblockMirror
	}
	if err := drop(ctx, id); err != nil {
		s.mirrors.distrust(id)
		s.opts.Degraded.Without("mirror", err)
		return
	}
	s.mirrors.trust(id)
}

// mirrorLife is how long a copy is used. It limits the damage if a change could not delete
// the copy, and its process has ended since.
const mirrorLife = 10 * time.Minute

// FindSessions returns sessions with a wishlist, as Store.FindSessions does.
func (s *Service) FindSessions(ctx context.Context, prefix string, limit int) ([]ID, error) {
	return s.opts.Store.FindSessions(ctx, prefix, limit)
}

// Wishes reads live entries of a wishlist, as Store.Wishes does, from its mirror if there
// is one.
func (s *Service) Wishes(ctx context.Context, id ID, after *Wish, limit int) ([]Wish, error) {
	all, err := s.allWishes(ctx, id)
	if err != nil {
		return nil, err
	}
	first := 0
	for after != nil && first < len(all) && !follows(all[first], *after) {
		first++
	}
	return all[first:min(first+limit, len(all))], nil
}

// follows reports whether w is after another entry in the order of a wishlist.
func follows(w, other Wish) bool {
	if w.Added.Equal(other.Added) {
		return w.ID > other.ID
	}
	return w.Added.Before(other.Added)
}

func (s *Service) allWishes(ctx context.Context, id ID) ([]Wish, error) {
	if !s.mirrors.trusts(id) {
		return s.opts.Store.Wishes(ctx, id, nil, MaxWishes)
	}
	m, err := s.opts.Hot.Mirror(ctx, id)
	if age := s.opts.Clock().Sub(m.Filled); err == nil && m.Wishes != nil && (age > mirrorLife || age < -mirrorLife) {
		if err = s.opts.Hot.DropMirror(ctx, id); err == nil {
			m, err = s.opts.Hot.Mirror(ctx, id)
		}
	}
	switch {
	case s.opts.Degraded.Without("mirror", err):
		return s.opts.Store.Wishes(ctx, id, nil, MaxWishes)
	case err != nil:
		return nil, err
	case m.Wishes != nil:
		var all []Wish
		if err := json.Unmarshal(m.Wishes, &all); err != nil {
			return nil, errcode.Wrap(errcode.Internal, "decode the mirror of a wishlist", err)
		}
		return all, nil
	}
	all, err := s.opts.Store.Wishes(ctx, id, nil, MaxWishes)
	if err != nil || m.Lease == "" {
		return all, err
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil, errcode.Wrap(errcode.Internal, "encode the mirror of a wishlist", err)
	}
	if err := s.opts.Hot.FillMirror(ctx, id, m.Lease, text); !s.opts.Degraded.Without("mirror", err) && err != nil {
		return nil, err
	}
	return all, nil
}

// mirrors are the mirrors that a change could not delete, which are not used.
type mirrors struct {
	mu      sync.Mutex
	suspect map[ID]bool
	many    bool // too many to remember: none is used until Redis has been back for mirrorLife

	overflowed time.Time // when Repair last found Hot unavailable; only Repair uses it

	cleared map[ID][]string // sessions whose state could not be deleted from Hot, with the keys of their answers
}

// maxSuspect limits the memory of mirrors.
const maxSuspect = 100_000

// maxCleared likewise. Beyond it, what a guest has cleared stays in Redis until it expires.
const maxCleared = 10_000

func newMirrors() *mirrors { return &mirrors{suspect: map[ID]bool{}, cleared: map[ID][]string{}} }

func (m *mirrors) distrust(id ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.suspect) < maxSuspect {
		m.suspect[id] = true
		return
	}
	m.many = true
}

// clear remembers a session that was cleared while Hot was unavailable.
func (m *mirrors) clear(id ID, answers []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.cleared) < maxCleared {
		m.cleared[id] = append(m.cleared[id], answers...)
	}
}

// takeCleared returns one of the sessions that were cleared, and forgets it.
func (m *mirrors) takeCleared() (id ID, answers []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, answers = range m.cleared {
		delete(m.cleared, id)
		break
	}
	return id, answers
}

func (m *mirrors) trust(id ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.suspect, id)
}

func (m *mirrors) trusts(id ID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.many && !m.suspect[id]
}

// some returns some suspects.
func (m *mirrors) some(most int) (ids []ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.suspect {
		if len(ids) == most {
			break
		}
		ids = append(ids, id)
	}
	return ids
}

const (
	// repairEvery is the time between attempts to delete old copies.
	repairEvery = time.Second
	// repairStep is how many are deleted before the next look at the clock.
	repairStep = 1000
)

// Run calls each of the steps every second until ctx ends: what repairs in the background what could
// not be done when it should have been.
func Run(ctx context.Context, steps ...func(context.Context)) {
	for {
		for _, step := range steps {
			step(ctx)
		}
		if !clock.Sleep(ctx, repairEvery) {
			return
		}
	}
}

// Repair does what could not be done while Hot was unavailable, and writes to the database which
// sessions have sent requests. It is a step for Run.
func (s *Service) Repair(ctx context.Context) {
	s.repairMirrors(ctx, time.Now())
	s.repairCleared(ctx)
	_ = s.FlushSeen(ctx) // the next step tries again
}

func (s *Service) repairMirrors(ctx context.Context, now time.Time) {
	for _, id := range s.mirrors.some(repairStep) {
		if s.opts.Hot.DropMirror(ctx, id) != nil {
			s.mirrors.overflowed = now
			return
		}
		s.mirrors.trust(id)
	}
	s.mirrors.mu.Lock()
	defer s.mirrors.mu.Unlock()
	if s.mirrors.many && now.Sub(s.mirrors.overflowed) > mirrorLife {
		s.mirrors.many = false
	}
}

// repairCleared deletes the state of sessions that were cleared while Hot was unavailable.
func (s *Service) repairCleared(ctx context.Context) {
	for range repairStep {
		id, answers := s.mirrors.takeCleared()
		if id == "" {
			return
		}
		if s.dropHot(ctx, id, answers) != nil {
			s.mirrors.clear(id, answers)
			return
		}
	}
}
