package tokenserver

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Purger deletes a user's data on a storage node. Deleting absent data is not an
// error. A storage that is keyed by account and key ID must not delete anything if
// u.KeysLive is set, because the current user has the same key.
type Purger interface {
	Purge(ctx context.Context, u DueUser) error
}

// maxCleanupPages limits how far one Cleanup reads past rows that cannot be
// cleaned up, on a node that is unreachable without being marked down.
const maxCleanupPages = 100

// tokenMargin is how long a storage user may still write after its tokens have
// expired: the clock of a node may be slow, and a request with a valid token may
// take time.
const tokenMargin = 10 * time.Minute

// TokenLife returns how long a storage user may write after its last token was
// issued.
func (c *Config) TokenLife() time.Duration { return c.TokenDuration + tokenMargin }

// deadlines returns the deadlines at now. A row is kept while tokens of its storage user
// are valid, because they may still write data, which is found by the row.
func (s *Service) deadlines(now time.Time) Deadlines {
	life := s.Config().TokenLife()
	return Deadlines{Replaced: now.Add(-max(s.Config().ReplacedUserGrace, life)), Deleted: now.Add(-life)}
}

// Cleanup deletes the data and then the rows of users that were replaced longer
// ago than the grace period, at most limit, and returns their number. For deleted
// accounts it does so when their tokens have expired. A node that fails is skipped
// for the rest of the run; the error names it, and other nodes may have been
// cleaned up.
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

// remove deletes a replaced user: first the data, then the row, so that the next
// run finds it again after a failure.
func (s *Service) remove(ctx context.Context, u DueUser) error {
	if err := s.purge(ctx, u); err != nil {
		return err
	}
	return s.store.Forget(ctx, u.UID)
}

// purge deletes a user's data on its node.
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

// purger returns the Purger for the user's data, or nil if there is nothing to
// delete: the node was removed, or the data under the key is in use.
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

// IsLocal reports whether this server stores the user's data.
func (s *Service) IsLocal(u *User) bool {
	return s.local != nil && (u.Node == Self || u.Node == s.publicURL)
}

// inheritQuota gives a new storage user the own quota of the account's previous
// one. It runs before the first token is issued, and again until the old user is
// cleaned up, so that the quota survives a crash in between.
func (s *Service) inheritQuota(ctx context.Context, a Account, u *User, now time.Time) error {
	if s.inherit == nil || !s.IsLocal(u) || u.CreatedAt < s.deadlines(now).Replaced.UnixMilli() {
		return nil
	}
	st, err := s.store.AccountState(ctx, a)
	if err != nil {
		return err
	}
	var from []User // newest first
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

// DeleteAccount deletes the data of all storage users of an account, at once and
// without a grace period, and returns their number. The account may come back as a
// new one. The rows stay until their tokens have expired, and Cleanup then deletes
// what was written with these meanwhile, because nodes may not know of the
// deletion. It also completes an interrupted DeleteAccount.
func (s *Service) DeleteAccount(ctx context.Context, a Account) (int, error) {
	now := s.now()
	users, err := s.store.Delete(ctx, a, now)
	if err != nil {
		return 0, err
	}
	ended := s.deadlines(now).Deleted.UnixMilli()
	for i := range users {
		u := DueUser{User: users[i]}
		if u.NodeID == s.Config().SpannerNodeID { // the account may have signed in again with the same keys
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

// keysLive reports whether an unreplaced row has the key ID of u.
func (st *AccountState) keysLive(u *User) bool {
	for i := range st.Users {
		if o := &st.Users[i]; !o.Replaced && o.KeyID() == u.KeyID() {
			return true
		}
	}
	return false
}
