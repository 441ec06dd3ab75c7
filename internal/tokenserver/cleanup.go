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

// Cleanup deletes the storage of users that were replaced longer ago than the
// grace, then their rows, at most limit, and returns how many. A node that
// fails is left alone for the rest of the run; the error says which did, and
// does not mean that nothing was done.
func (s *Service) Cleanup(ctx context.Context, now time.Time, limit int) (int, error) {
	before := now.Add(-s.conf.ReplacedUserGrace)
	failed := map[string]error{}
	var last DueUser
	done := 0
	for range maxCleanupPages {
		page, err := s.store.Due(ctx, before, last, limit)
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
	if p := s.purger(u); p != nil {
		if err := p.Purge(ctx, u); err != nil {
			return fmt.Errorf("delete the storage of user %d on node %s: %w", u.UID, u.Node, err)
		}
	}
	return s.store.Forget(ctx, u.UID)
}

// purger is who deletes the user's storage, nil when there is nothing to
// delete: the node is gone, or what it keeps under the key is in use.
func (s *Service) purger(u DueUser) Purger {
	own := u.Node == Self || u.Node == s.publicURL
	switch {
	case u.Node == "":
		return nil
	case u.KeysLive && u.NodeID == s.conf.SpannerNodeID:
		return nil
	case own && s.local != nil:
		return s.local
	}
	return s.remote
}

// DeleteAccount removes all storage users of an account with their data at
// once, without a grace, and returns how many. The account may come back as a
// new one. What could not be removed is replaced and left to Cleanup.
func (s *Service) DeleteAccount(ctx context.Context, a Account) (int, error) {
	if _, err := s.store.Replace(ctx, a, s.now(), false); err != nil {
		return 0, err
	}
	for done := 0; ; {
		st, err := s.store.AccountState(ctx, a)
		if err != nil {
			return done, err
		}
		before := done
		for i := range st.Users {
			u := DueUser{User: st.Users[i], KeysLive: st.keysLive(&st.Users[i])}
			if !u.Replaced {
				continue // signed in again meanwhile
			}
			if err := s.remove(ctx, u); err != nil {
				return done, err
			}
			done++
		}
		if done == before {
			return done, nil
		}
	}
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
