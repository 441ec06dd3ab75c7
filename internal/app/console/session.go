package console

import (
	"crypto/sha256"
	"slices"
	"strconv"
	"sync"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/ident"
	"holdfast/internal/web/rate"
)

const (
	idleLife    = 30 * time.Minute // without a request by the operator; updates by htmx do not count
	longestLife = 12 * time.Hour   // after the sign-in
	linkLife    = time.Hour        // of a sign-in link
	maxSessions = 100              // the least recently used session is evicted
)

type role string

const (
	admin  role = "admin"
	viewer role = "viewer"
)

// session is kept in memory only, so it ends with the server.
type session struct {
	id      int // ascending number, for logs and the page Sessions
	role    role
	csrf    string // token in each of the session's forms
	address string // the client's network at the sign-in
	began   time.Time
	used    time.Time
	notice  string // shown once, on the next page
}

// name returns how logs and audits call the session. It contains no secret.
func (s *session) name() string { return string(s.role) + " session " + strconv.Itoa(s.id) }

// sessions are keyed by cookie hash.
type sessions struct {
	now clock.Clock

	mu     sync.Mutex
	byHash map[[sha256.Size]byte]*session
	last   int       // the newest session's ID
	link   string    // the one sign-in link; "": used
	linked time.Time // when the link was made
}

func newSessions(now clock.Clock) *sessions {
	return &sessions{now: now, byHash: map[[sha256.Size]byte]*session{}}
}

// begin returns the new session's cookie, which is not stored, and a session copy.
func (all *sessions) begin(r role, address string) (cookie string, s session) {
	cookie = ident.Hex(32)
	now := all.now()
	all.mu.Lock()
	defer all.mu.Unlock()
	all.prune(now)
	if len(all.byHash) >= maxSessions {
		var oldest [sha256.Size]byte
		for hash, s := range all.byHash {
			if first := all.byHash[oldest]; first == nil || s.used.Before(first.used) {
				oldest = hash
			}
		}
		delete(all.byHash, oldest)
	}
	all.last++
	begun := &session{id: all.last, role: r, csrf: ident.Hex(32), address: address, began: now, used: now}
	all.byHash[sha256.Sum256([]byte(cookie))] = begun
	return cookie, *begun
}

// prune deletes expired sessions. The caller holds the lock.
func (all *sessions) prune(now time.Time) {
	for hash, s := range all.byHash {
		if now.Sub(s.used) >= idleLife || now.Sub(s.began) >= longestLife {
			delete(all.byHash, hash)
		}
	}
}

// find returns a cookie's session. With takeNotice, it clears the notice. htmx updates neither clear the notice nor
// extend the session.
func (all *sessions) find(cookie string, takeNotice, isUpdate bool) (s session, ok bool) {
	now := all.now()
	all.mu.Lock()
	defer all.mu.Unlock()
	all.prune(now)
	known := all.byHash[sha256.Sum256([]byte(cookie))]
	if known == nil {
		return s, false
	}
	if s = *known; isUpdate {
		return s, true
	}
	known.used = now
	if takeNotice {
		known.notice = ""
	}
	return s, true
}

// note sets the notice that the session's next page shows. A session that has ended meanwhile is ignored.
func (all *sessions) note(id int, notice string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, s := range all.byHash {
		if s.id == id {
			s.notice = notice
		}
	}
}

// list returns copies, newest first.
func (all *sessions) list() (list []session) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.prune(all.now())
	for _, s := range all.byHash {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b session) int { return b.id - a.id })
	return list
}

// end ends the sessions for which drop returns true, and returns their number.
func (all *sessions) end(drop func(*session) bool) (n int) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for hash, s := range all.byHash {
		if drop(s) {
			delete(all.byHash, hash)
			n++
		}
	}
	return n
}

// newLink returns the token for a new sign-in link.
func (all *sessions) newLink() string {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.link, all.linked = ident.Hex(32), all.now()
	return all.link
}

// takeLink reports whether the token is the current link's, and uses it up, even if it has expired.
func (all *sessions) takeLink(token string) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	if !rate.Same(token, all.link) {
		return false
	}
	all.link = ""
	return all.now().Sub(all.linked) < linkLife
}
