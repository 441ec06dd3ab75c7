package sync

import (
	"fmt"
	"sync"
	"time"

	"holdfast/internal/auth/tokenlib"
)

// User is a user whose storage several writers share.
type User struct {
	Path    string // of the storage
	id, key string // sign requests
	Writers []*Writer

	mu      sync.Mutex
	newest  Moment            // of the timestamps below
	given   map[Moment]string // the write of each timestamp
	Touched map[string]Moment // the newest timestamp of each shared collection
}

// NewUser returns a user with a token of the servers with a secret.
func NewUser(secret string, uid int64) (*User, error) {
	c, err := Issue(secret, "", tokenlib.Claims{
		UID: uid, FxAUID: fmt.Sprintf("fault-%d", uid), FxAKID: "0000000000001-qqo", Expires: time.Now().Add(10 * 365 * 24 * time.Hour),
	})
	return &User{Path: c.Endpoint, id: c.ID, key: c.Key, given: map[Moment]string{}, Touched: map[string]Moment{}}, err
}

// Credentials returns the user's credentials for a server.
func (u *User) Credentials(url string) Credentials {
	return Credentials{ID: u.id, Key: u.key, Endpoint: url + u.Path}
}

// Known returns the newest timestamp that any client has seen.
func (u *User) Known() Moment {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.newest
}

// stamped records the timestamp of a write, which must be greater than the one known when it was
// sent.
func (u *User) stamped(s *Step, stamp Moment) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if stamp <= s.Known {
		return fmt.Errorf("%s has the timestamp %v, but %v was known before", s, stamp, s.Known)
	}
	if other, twice := u.given[stamp]; twice {
		return fmt.Errorf("%s and %s both have the timestamp %v", other, s, stamp)
	}
	u.given[stamp] = s.String()
	u.newest = max(u.newest, stamp)
	u.Touched[s.collection] = max(u.Touched[s.collection], stamp)
	return nil
}

// Wrote returns the newest timestamp of a shared collection that any client has seen.
func (u *User) Wrote(collection string) Moment {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.Touched[collection]
}
