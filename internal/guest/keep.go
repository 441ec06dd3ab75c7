package guest

import (
	"context"
	"crypto/sha256"
	"maps"
	"slices"
	"time"
)

// A server with an embedded database keeps its hot state in memory, and the sessions and searches in it also in the
// database: Repair writes those that changed, and RestoreHot reads them at the next start. All other hot state is
// read from the database again, or may begin anew.

// HotState is a session or a search as HotKeeper encodes it.
type HotState struct {
	Session ID // the session itself, or the search's session
	ID      ID // the session's or the search's ID
	State   []byte
	Expires time.Time // in microseconds
}

// HotChanges are differences between hot state and HotStore. Dropped sessions come first: a session in both lists was
// dropped, and then got new state.
type HotChanges struct {
	Dropped []ID // sessions, with all their searches
	Changed []HotState
	More    bool // there are more changes
}

// HotKeeper is hot state in memory that outlives its process in a HotStore. It is safe for concurrent use.
type HotKeeper interface {
	// TakeChanges returns changes since the last call: about maxBytes, but at least one state. Use by
	// itself is a change at most once a day, and none in sessions that never had preferences, attributes or lists.
	TakeChanges(maxBytes int) HotChanges

	// PutBack notes changes that were not stored. TakeChanges will return their newest state.
	PutBack(c HotChanges)

	// Sessions returns all known sessions.
	Sessions() []ID

	// Restore adds states that are not known yet, least recently used first. It ignores expired states, and states that
	// it cannot decode.
	Restore(states []HotState)
}

// ErasedHot is a session that was cleared or erased, perhaps by another process, such as a command. A process with a
// copy in memory deletes it, too.
type ErasedHot struct {
	Session [32]byte  // ID.Hash: an erasure leaves no ID
	Answers []string  // composite keys
	Until   time.Time // identifies the erasure, if the session is erased again
}

// Hash returns an ID's SHA-256.
func (id ID) Hash() [32]byte { return sha256.Sum256([]byte(id)) }

// HotStore stores hot state for HotKeeper. Store.Clear and Store.Erase delete a session's state in their transaction,
// and note the session as erased: until the note is deleted, the session's state cannot be stored.
type HotStore interface {
	// KeptHot reads up to limit states after the expiry and ID in after, ordered by expiry and ID. The zero value starts
	// at the beginning.
	KeptHot(ctx context.Context, after HotState, limit int) ([]HotState, error)

	// ErasedHot returns up to limit erased sessions.
	ErasedHot(ctx context.Context, limit int) ([]ErasedHot, error)

	// KeepHot applies changes in a transaction, and then deletes the erased sessions' notes. Changed states of sessions
	// that were noted before are left out.
	KeepHot(ctx context.Context, c HotChanges, erased []ErasedHot) error
}

const (
	keepBytes   = 1 << 20 // state per transaction, so that guests' changes do not wait for long
	keepErased  = 1000    // erased sessions per transaction
	restoreStep = 1000    // states per read
)

// RestoreHot reads the hot state that a former process stored, before requests are served. Without Options.Keeper it
// does nothing. It may be repeated after an error.
func (s *Service) RestoreHot(ctx context.Context) error {
	if s.opts.Keeper == nil || s.restored.Load() {
		return nil
	}
	var last HotState
	for {
		states, err := s.opts.Kept.KeptHot(ctx, last, restoreStep)
		if err != nil {
			return err
		}
		s.opts.Keeper.Restore(states)
		if len(states) < restoreStep {
			break
		}
		last = states[len(states)-1]
	}
	s.restored.Store(true)
	return nil
}

// KeepHot stores all changed hot state, e.g. at shutdown. It first applies erasures by other processes, such as
// commands. Calls must not overlap.
func (s *Service) KeepHot(ctx context.Context) error {
	if s.opts.Keeper == nil {
		return nil
	}
	if err := s.RestoreHot(ctx); err != nil { // a restored state must not overwrite a newer one
		return err
	}
	for {
		c := s.opts.Keeper.TakeChanges(keepBytes)
		more, err := s.keep(ctx, c)
		if err != nil {
			s.opts.Keeper.PutBack(c)
			return err
		}
		if !more {
			return nil
		}
	}
}

// keep stores c, without the sessions that were erased meanwhile. c was taken before the notes are read, so that the
// notes of its dropped sessions are among them.
func (s *Service) keep(ctx context.Context, c HotChanges) (more bool, err error) {
	erased, err := s.opts.Kept.ErasedHot(ctx, keepErased)
	if err != nil {
		return false, err
	}
	gone := make(map[[32]byte]bool, len(erased)) // by hash: whether this process has dropped the session itself
	for _, e := range erased {
		gone[e.Session] = false
	}
	for _, id := range c.Dropped {
		if _, noted := gone[id.Hash()]; noted {
			gone[id.Hash()] = true
		}
	}
	if err := s.dropErased(ctx, erased, gone); err != nil {
		return false, err
	}
	if len(erased) == 0 && len(c.Dropped) == 0 && len(c.Changed) == 0 {
		return false, nil
	}
	if err := s.opts.Kept.KeepHot(ctx, c, erased); err != nil {
		return false, err
	}
	// If a session was erased and used again, the next call stores its new state.
	again := slices.DeleteFunc(c.Changed, func(h HotState) bool { _, noted := gone[h.Session.Hash()]; return !noted })
	s.opts.Keeper.PutBack(HotChanges{Changed: again})
	return c.More || len(erased) == keepErased, nil
}

// dropErased deletes the hot state of sessions that other processes have erased. done says by hash which sessions this
// process has dropped already.
func (s *Service) dropErased(ctx context.Context, erased []ErasedHot, done map[[32]byte]bool) error {
	var answers []string
	for _, e := range erased {
		if !done[e.Session] {
			answers = append(answers, e.Answers...)
		}
	}
	if slices.Contains(slices.Collect(maps.Values(done)), false) {
		for _, id := range s.opts.Keeper.Sessions() {
			if dropped, noted := done[id.Hash()]; !noted || dropped {
				continue
			}
			for _, forget := range s.forget {
				forget(id)
			}
			if err := s.dropHot(ctx, id, nil); err != nil {
				return err
			}
		}
	}
	return s.opts.Hot.DropAnswers(ctx, answers)
}
