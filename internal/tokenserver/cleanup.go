package tokenserver

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Purger deletes a user's data on a storage node. A storage keyed by account and key ID must keep it if u.KeysLive is
// set. It is safe for concurrent use and idempotent: a user without data is not an error.
type Purger interface {
	Purge(ctx context.Context, u DueUser) error
}

// maxCleanupPages limits how far a Cleanup reads past rows on nodes that are unreachable but not marked as down.
const maxCleanupPages = 100

// tokenMargin allows for a node's slow clock and the duration of requests.
const tokenMargin = 10 * time.Minute

// TokenLife returns how long a storage user may write after its last token was issued.
func (c *Config) TokenLife() time.Duration { return c.TokenDuration + tokenMargin }

// deadlines keeps a row while its tokens may still write data, because that data can only be found through the row.
func (s *Service) deadlines(now time.Time) Deadlines {
	life := s.Config().TokenLife()
	return Deadlines{Replaced: now.Add(-max(s.Config().ReplacedUserGrace, life)), Deleted: now.Add(-life)}
}

// Cleanup deletes data and rows of at most limit users, and returns how many, also with an error. Fewer than limit mean
// that none is due, except on nodes that failed: it skips these and names them in the error.
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

// joined joins errors of nodes.
func joined(failed map[string]error) error {
	var all []error
	for _, err := range failed {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// remove deletes the data first: without the row, nobody would find it.
func (s *Service) remove(ctx context.Context, u DueUser) error {
	if err := s.purge(ctx, u); err != nil {
		return err
	}
	return s.store.Forget(ctx, u.UID)
}

// purge deletes a user's data, if it has any that nobody uses.
func (s *Service) purge(ctx context.Context, u DueUser) error {
	p := s.purger(u)
	if p == nil {
		return nil
	}
	if err := p.Purge(ctx, u); err != nil {
		return fmt.Errorf("delete user %d's storage on node %s: %w", u.UID, u.Node, err)
	}
	return nil
}

// purger returns nil if nothing must be deleted: the user never had a node, or the data is in use under the same key ID
// on Spanner.
func (s *Service) purger(u DueUser) Purger {
	switch {
	case u.Node == "":
		return nil
	case u.KeysLive && u.NodeID == s.Config().SpannerNodeID:
		return nil
	case s.IsLocal(&u.User):
		return s.local
	}
	return s.remote
}

// IsLocal reports whether the user's data is on this server.
func (s *Service) IsLocal(u *User) bool {
	return s.local != nil && (u.Node == Self || u.Node == s.publicURL)
}

// inheritQuota copies the previous user's quota to a new storage user before the first token is issued.
func (s *Service) inheritQuota(ctx context.Context, a Account, u *User, now time.Time) error {
	if s.inherit == nil || !s.IsLocal(u) || u.CreatedAt < s.deadlines(now).Replaced.UnixMilli() {
		return nil
	}
	st, err := s.store.AccountState(ctx, a)
	if err != nil {
		return err
	}
	var from []User
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

// DeleteAccount immediately deletes the data of an account's storage users, and returns how many users there were. The
// account may sign in again as a new account. Rows stay until tokens expire, so that Cleanup deletes data written in
// the meantime.
func (s *Service) DeleteAccount(ctx context.Context, a Account) (int, error) {
	now := s.now()
	users, err := s.store.Delete(ctx, a, now)
	if err != nil {
		return 0, err
	}
	ended := s.deadlines(now).Deleted.UnixMilli()
	for i := range users {
		u := DueUser{User: users[i]}
		if u.NodeID == s.Config().SpannerNodeID {
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

// keysLive reports whether an unreplaced row has the same key ID as u.
func (st *AccountState) keysLive(u *User) bool {
	for i := range st.Users {
		if o := &st.Users[i]; !o.Replaced && o.KeyID() == u.KeyID() {
			return true
		}
	}
	return false
}
