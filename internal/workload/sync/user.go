package sync

import (
	"fmt"
	"sync"
	"time"

	"holdfast/internal/auth/tokenlib"
)

// User is a user whose storage several writers share.
type User struct {
	Path    string
	id, key string // sign requests
	Writers []*Writer

	mu      sync.Mutex
	newest  Moment            // newest of the timestamps below
	given   map[Moment]string // write by timestamp
	Touched map[string]Moment // newest timestamp by shared collection
}

// NewUser returns a user with a token for servers with the secret.
func NewUser(secret string, uid int64) (*User, error) {
	c, err := Issue(secret, "", tokenlib.Claims{
		UID: uid, FxAUID: fmt.Sprintf("fault-%d", uid), FxAKID: "0000000000001-qqo", Expires: time.Now().Add(10 * 365 * 24 * time.Hour),
	})
	return &User{Path: c.Endpoint, id: c.ID, key: c.Key, given: map[Moment]string{}, Touched: map[string]Moment{}}, err
}

func (u *User) Credentials(url string) Credentials {
	return Credentials{ID: u.id, Key: u.key, Endpoint: url + u.Path}
}

// Known returns the newest timestamp seen by any client.
func (u *User) Known() Moment {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.newest
}

// stamped records a write's timestamp, which must exceed the timestamp known when it was sent.
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

func (u *User) Wrote(collection string) Moment {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.Touched[collection]
}
