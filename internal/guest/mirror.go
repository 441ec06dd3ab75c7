package guest

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/ident"
)

// DoOnce runs a store step behind Hot's answers: repeats rarely need the database, and concurrent duplicates do not
// wait. If Hot lost the answer or is unavailable, the database decides.
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
	after := context.WithoutCancel(ctx) // the client may be gone
	if err == nil {
		if a, err := m.Encode(o.Result); err == nil && s.opts.Hot.PutAnswer(after, key, m.Digest, a) == nil {
			return o, nil
		}
	}
	s.opts.Degraded.Without("answer", s.opts.Hot.ReleaseAnswer(after, key, owner)) // a repeated request asks the database
	return o, err
}

// onWishlist is DoOnce for wishlist changes. It deletes the mirror before the step, in case the process dies right
// after the commit, and again afterwards.
func onWishlist[R any](ctx context.Context, s *Service, m Mutation, step func() (Once[R], error)) (Once[R], error) {
	var end sync.WaitGroup
	defer end.Wait()
	return DoOnce(ctx, s, m, func() (Once[R], error) {
		blocked := s.opts.Hot.BlockMirror(ctx, m.Session) == nil
		if !blocked {
			s.mirrors.distrust(m.Session)
		}
		o, err := step()
		// In parallel with storing the answer, to save a round trip.
		end.Go(func() { s.dropMirror(context.WithoutCancel(ctx), m.Session, blocked) })
		return o, err
	})
}

// dropMirror deletes the copy after a change. If that fails, this process stops using the mirror until Repair deletes
// it.
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

// mirrorLife limits how long a copy is used, in case a change failed to delete it and its process died.
const mirrorLife = 10 * time.Minute

// FindSessions finds sessions by ID prefix. See Store.
func (s *Service) FindSessions(ctx context.Context, prefix string, limit int) ([]ID, error) {
	return s.opts.Store.FindSessions(ctx, prefix, limit)
}

// Wishes is Store.Wishes, from the mirror if it is filled.
func (s *Service) Wishes(ctx context.Context, id ID, after *Wish, limit int) ([]Wish, error) {
	all, err := s.AllWishes(ctx, id)
	return PageOf(all, after, limit), err
}

// PageOf returns up to limit wishes after a position in the whole list; nil is the start.
func PageOf(all []Wish, after *Wish, limit int) []Wish {
	first := 0
	for after != nil && first < len(all) && !follows(all[first], *after) {
		first++
	}
	return all[first:min(first+limit, len(all))]
}

// Wish returns the entry for an item as it is written in a path, or ErrNoWish.
func (s *Service) Wish(ctx context.Context, id ID, item string) (Wish, error) {
	item, ok := s.opts.Profile.ParseItem(item)
	if !ok {
		return Wish{}, ErrNoWish
	}
	all, err := s.AllWishes(ctx, id)
	if err != nil {
		return Wish{}, err
	}
	i := slices.IndexFunc(all, func(w Wish) bool { return w.Item == item })
	if i < 0 {
		return Wish{}, ErrNoWish
	}
	return all[i], nil
}

// follows reports whether w comes after other in a wishlist: newest first, then by ID.
func follows(w, other Wish) bool {
	if w.Added.Equal(other.Added) {
		return w.ID > other.ID
	}
	return w.Added.Before(other.Added)
}

// AllWishes reads the whole wishlist, in Store.Wishes order, from the mirror, or from the database, and then fills the
// mirror if it got the lease.
func (s *Service) AllWishes(ctx context.Context, id ID) ([]Wish, error) {
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

// mirrors tracks mirrors that could not be deleted and must not be used.
type mirrors struct {
	mu      sync.Mutex
	suspect map[ID]bool
	many    bool // too many to track: no mirrors until Redis has been back for mirrorLife

	overflowed time.Time // when Repair last found Hot unavailable; used by Repair only

	cleared map[ID][]string // answer keys by session, for sessions to delete from Hot
}

const maxSuspect = 100_000 // mirrors to track; beyond it, none is used

// maxCleared limits the sessions in cleared. Further sessions stay in Redis until they expire.
const maxCleared = 10_000

// newMirrors trusts all mirrors.
func newMirrors() *mirrors { return &mirrors{suspect: map[ID]bool{}, cleared: map[ID][]string{}} }

// distrust stops the use of a mirror that could not be deleted.
func (m *mirrors) distrust(id ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.suspect) < maxSuspect {
		m.suspect[id] = true
		return
	}
	m.many = true
}

// clear notes a session whose hot state must be deleted later.
func (m *mirrors) clear(id ID, answers []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.cleared) < maxCleared {
		m.cleared[id] = append(m.cleared[id], answers...)
	}
}

// takeCleared takes any noted session; "" if no session is noted.
func (m *mirrors) takeCleared() (id ID, answers []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, answers = range m.cleared {
		delete(m.cleared, id)
		break
	}
	return id, answers
}

// trust allows the use again.
func (m *mirrors) trust(id ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.suspect, id)
}

// trusts reports whether the mirror may be used.
func (m *mirrors) trusts(id ID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.many && !m.suspect[id]
}

// some returns distrusted mirrors, up to a limit.
func (m *mirrors) some(limit int) (ids []ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.suspect {
		if len(ids) == limit {
			break
		}
		ids = append(ids, id)
	}
	return ids
}

const (
	repairEvery = time.Second // see Run
	repairStep  = 1000        // sessions per step
)

// Run calls the steps, one after another, until ctx ends, with a pause of a second after the last. A slow step delays the
// others.
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

// Repair is a step for Run: it repeats work that failed while Hot was unavailable, marks used sessions in the database,
// and stores changed hot state.
func (s *Service) Repair(ctx context.Context) {
	s.repairMirrors(ctx, time.Now())
	s.repairCleared(ctx)
	_ = s.FlushSeen(ctx) // retried by the next step
	_ = s.KeepHot(ctx)
}

// repairMirrors deletes distrusted mirrors.
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

// repairCleared deletes the hot state of sessions that were cleared while Hot was unavailable.
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
