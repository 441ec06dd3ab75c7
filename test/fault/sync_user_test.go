package fault

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"holdfast/internal/auth/tokenlib"
	"holdfast/test/binary"
)

// user is a user whose storage several writers share.
type user struct {
	path    string // of the storage
	id, key string // sign requests
	writers []*writer

	mu      sync.Mutex
	newest  moment            // of the timestamps below
	given   map[moment]string // the write of each timestamp
	touched map[string]moment // the newest timestamp of each shared collection
}

func newUser(t *testing.T, secret string, uid int64) *user {
	t.Helper()
	keys, err := tokenlib.NewKeyring(secret)
	must(t, err)
	u := &user{path: fmt.Sprintf("/1.5/%d", uid), given: map[moment]string{}, touched: map[string]moment{}}
	u.id, u.key, err = keys.Mint(tokenlib.Claims{UID: uid, FxAUID: fmt.Sprintf("fault-%d", uid), FxAKID: "0000000000001-qqo", Expires: time.Now().Add(10 * 365 * 24 * time.Hour)})
	must(t, err)
	return u
}

// known returns the newest timestamp that any client has seen.
func (u *user) known() moment {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.newest
}

// stamped records the timestamp of a write, which must be greater than the one known when it was
// sent.
func (u *user) stamped(s *step, stamp moment) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if stamp <= s.known {
		return fmt.Errorf("%s has the timestamp %v, but %v was known before", s, stamp, s.known)
	}
	if other, twice := u.given[stamp]; twice {
		return fmt.Errorf("%s and %s both have the timestamp %v", other, s, stamp)
	}
	u.given[stamp] = s.String()
	u.newest = max(u.newest, stamp)
	u.touched[s.collection] = max(u.touched[s.collection], stamp)
	return nil
}

// wrote returns the newest timestamp of a shared collection that any client has seen.
func (u *user) wrote(collection string) moment {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.touched[collection]
}

// send sends a signed request; path is relative to the user's storage.
func (u *user) send(h *harness, method, path, body string) (binary.Answer, error) {
	return u.sendTo(h, h.server, method, path, body)
}

func (u *user) sendTo(h *harness, s *binary.Server, method, path, body string) (binary.Answer, error) {
	c := binary.Credentials{ID: u.id, Key: u.key, Endpoint: s.URL + u.path}
	return c.SendBy(h.t.Context(), h.client, method, path, body)
}
