package tokenserver

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Purger deletes what a storage node keeps for a user. Deleting what is not
// there is no error. A storage that is keyed by account and key id must leave
// everything when u.KeysLive is set: its key is that of the living user too.
type Purger interface {
	Purge(ctx context.Context, u DueUser) error
}

// maxCleanupPages bounds how far one Cleanup looks past rows that cannot be
// cleaned, on a node that is away without being marked down.
const maxCleanupPages = 100

// tokenMargin is how long after the end of its tokens a storage user may still
// write: the clock of a node may be slow, and a request that began with a good token
// may take its time.
const tokenMargin = 10 * time.Minute

// TokenLife is how long after its last token a storage user may write.
func (c *Config) TokenLife() time.Duration { return c.TokenDuration + tokenMargin }

// deadlines are what is due at now. No row is forgotten while tokens of its storage
// user are good: nothing would lead to what they write after that.
func (s *Service) deadlines(now time.Time) Deadlines {
	life := s.conf.TokenLife()
	return Deadlines{Replaced: now.Add(-max(s.conf.ReplacedUserGrace, life)), Deleted: now.Add(-life)}
}

// Cleanup deletes the storage of users that were replaced longer ago than the
// grace, then their rows, at most limit, and returns how many. Of an account that
// was deleted it does so when its tokens have expired. A node that
// fails is left alone for the rest of the run; the error says which did, and
// does not mean that nothing was done.
func (s *Service) Cleanup(ctx context.Context, now time.Time, limit int) (int, error) {
	due := s.deadlines(now)
	failed := map[string]error{}
	var last DueUser
	done := 0
	for range maxCleanupPages {
		page, err := s.store.Due(ctx, due, last, limit)
		if err != nil {
			return done, err
		}
		for _, u := range page {
			last = u
			if failed[u.Node] != nil {
				continue
			}
			if err := ctx.Err(); err != nil {
				return done, err
			}
			if err := s.remove(ctx, u); err != nil {
				failed[u.Node] = err
				continue
			}
			if done++; done == limit {
				return done, joined(failed)
			}
		}
		if len(page) < limit {
			break
		}
	}
	return done, joined(failed)
}

func joined(failed map[string]error) error {
	var all []error
	for _, err := range failed {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// remove deletes a replaced user: first the data, then the row, so that what
// fails in between is found again.
func (s *Service) remove(ctx context.Context, u DueUser) error {
	if err := s.purge(ctx, u); err != nil {
		return err
	}
	return s.store.Forget(ctx, u.UID)
}

// purge deletes what a node keeps for a user.
func (s *Service) purge(ctx context.Context, u DueUser) error {
	p := s.purger(u)
	if p == nil {
		return nil
	}
	if err := p.Purge(ctx, u); err != nil {
		return fmt.Errorf("delete the storage of user %d on node %s: %w", u.UID, u.Node, err)
	}
	return nil
}

// purger is who deletes the user's storage, nil when there is nothing to
// delete: the node is gone, or what it keeps under the key is in use.
func (s *Service) purger(u DueUser) Purger {
	switch {
	case u.Node == "":
		return nil
	case u.KeysLive && u.NodeID == s.conf.SpannerNodeID:
		return nil
	case s.IsLocal(&u.User):
		return s.local
	}
	return s.remote
}

// IsLocal reports whether this server has the user's storage.
func (s *Service) IsLocal(u *User) bool {
	return s.local != nil && (u.Node == Self || u.Node == s.publicURL)
}

// inheritQuota gives a new storage user the quota that the account had as another. It
// is done before the first token of the new user is given out, and again until the old
// user is cleaned up, so that nothing is lost when a server stops in between.
func (s *Service) inheritQuota(ctx context.Context, a Account, u *User, now time.Time) error {
	if s.inherit == nil || !s.IsLocal(u) || u.CreatedAt < s.deadlines(now).Replaced.UnixMilli() {
		return nil
	}
	st, err := s.store.AccountState(ctx, a)
	if err != nil {
		return err
	}
	var from []User // the newest first
	for i := range st.Users {
		if o := &st.Users[i]; o.UID != u.UID && o.Replaced && !o.IsDeleted() && s.IsLocal(o) {
			from = append(from, *o)
		}
	}
	if from == nil {
		return nil
	}
	return s.inherit(ctx, from, u)
}

// DeleteAccount deletes what the storage users of an account store, at once and
// without a grace, and returns how many they are. The account may come back as a new
// one. The rows stay until their tokens have expired, and Cleanup then deletes what
// was written with these meanwhile: the nodes may know nothing of the deletion. So
// it also does what a DeleteAccount that was interrupted has left.
func (s *Service) DeleteAccount(ctx context.Context, a Account) (int, error) {
	now := s.now()
	users, err := s.store.Delete(ctx, a, now)
	if err != nil {
		return 0, err
	}
	ended := s.deadlines(now).Deleted.UnixMilli()
	for i := range users {
		u := DueUser{User: users[i]}
		if u.NodeID == s.conf.SpannerNodeID { // it may have signed in again, with the same keys
			st, err := s.store.AccountState(ctx, a)
			if err != nil {
				return i, err
			}
			u.KeysLive = st.keysLive(&u.User)
		}
		remove := s.purge
		if u.ReplacedAt < ended {
			remove = s.remove
		}
		if err := remove(ctx, u); err != nil {
			return i, err
		}
	}
	return len(users), nil
}

// keysLive reports whether an unreplaced row has the key id of u.
func (st *AccountState) keysLive(u *User) bool {
	for i := range st.Users {
		if o := &st.Users[i]; !o.Replaced && o.KeyID() == u.KeyID() {
			return true
		}
	}
	return false
}
