package extstorage

import (
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Bounds of what a process keeps of what it has read.
const (
	grantsKept   = 4096 // claims of a token are mostly less than a kilobyte, and never more than eight
	installsKept = 10_000
	revokedKept  = 8 << 20 // bytes of the IDs of their revoked tokens
	schemasKept  = 512     // documents of up to 64 KiB
	freeKept     = 20_000  // namespaces that have no schema: most

	// CacheBytes is the most memory that these take: mostly claims and documents of
	// the largest size.
	CacheBytes = grantsKept*(8<<10) + schemasKept*MaxSchemaBytes + 8<<20

	// installAge is how old a registered install may be that requests are judged
	// by: so long after it, or one of its tokens, was revoked every process refuses it.
	installAge = time.Second
)

// keep makes room for so many, more than 0.
func keep[K comparable, V any](n int) *lru.Cache[K, V] {
	c, err := lru.New[K, V](n)
	if err != nil {
		panic(err)
	}
	return c
}

// seenInstall is an install as it was no earlier than at a time.
type seenInstall struct {
	Install
	revoked []string // IDs of its tokens, ascending
	at      time.Time
}

// hasRevoked reports whether the token of an ID was revoked.
func (in *seenInstall) hasRevoked(id string) bool {
	_, found := slices.BinarySearch(in.revoked, id)
	return found
}

// usable reports what an install refuses whatever a token says.
func (in *seenInstall) usable(t *Token) error {
	for _, d := range []Deletion{in.Deletion, in.Tenant.Deletion} {
		switch {
		case d.FinishedAt != 0:
			return ErrInstallDeleted
		case d.StartedAt != 0:
			return ErrInstallDeleting
		}
	}
	if in.RevokedAt != 0 {
		return ErrRevoked
	}
	after := in.Tenant.TokensAfter
	if !t.Service {
		after = max(after, in.TokensAfter)
	}
	if after != 0 && !t.Ends.IsZero() && At(t.Issued.Add(time.Second)) <= after { // an iat is in seconds
		return ErrTokenRevoked
	}
	return nil
}

// size is the memory of the IDs of revoked tokens, in bytes.
func (in *seenInstall) size() (n int) {
	for _, id := range in.revoked {
		n += len(id) + 16
	}
	return n
}

// installCache keeps installs that were seen. It is safe for concurrent use.
type installCache struct {
	mu   sync.Mutex
	seen *simplelru.LRU[Owner, seenInstall]
	size int // of all of them
}

func newInstallCache() *installCache {
	c := &installCache{}
	seen, err := simplelru.NewLRU(installsKept, func(_ Owner, in seenInstall) { c.size -= in.size() })
	if err != nil {
		panic(err)
	}
	c.seen = seen
	return c
}

func (c *installCache) get(o Owner) (seenInstall, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen.Get(o)
}

func (c *installCache) add(o Owner, in seenInstall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.Remove(o) // Add would not take off its size
	c.seen.Add(o, in)
	for c.size += in.size(); c.size > revokedKept && c.seen.Len() > 1; {
		c.seen.RemoveOldest()
	}
}

func (c *installCache) remove(o Owner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.Remove(o)
}

// namespaceOf is a namespace of an install.
type namespaceOf struct {
	Owner
	Namespace
}

// seenSchemas are the active schemas of namespaces, and which have none. What is
// not so any more the Store refuses, so the two need no common lock.
type seenSchemas struct {
	schemas *lru.Cache[namespaceOf, Schema]
	free    *lru.Cache[namespaceOf, struct{}]
}

func newSeenSchemas() seenSchemas {
	return seenSchemas{keep[namespaceOf, Schema](schemasKept), keep[namespaceOf, struct{}](freeKept)}
}

// get is what was seen last; version 0 is no schema.
func (s *seenSchemas) get(at namespaceOf) (Schema, bool) {
	if sc, ok := s.schemas.Get(at); ok {
		return sc, true
	}
	_, ok := s.free.Get(at)
	return Schema{}, ok
}

func (s *seenSchemas) add(at namespaceOf, sc Schema) {
	s.remove(at)
	if sc.Version == 0 {
		s.free.Add(at, struct{}{})
	} else {
		s.schemas.Add(at, sc)
	}
}

func (s *seenSchemas) remove(at namespaceOf) {
	s.schemas.Remove(at)
	s.free.Remove(at)
}

// ParseGrant is the function of that name, which takes longer than the rest of a
// token whose signature is known already. Grants are shared: they do not change.
func (s *Service) ParseGrant(claims []byte) (Grant, error) {
	if g, known := s.grants.Get(string(claims)); known {
		return g, nil
	}
	g, err := ParseGrant(claims)
	if err == nil {
		s.grants.Add(string(claims), g)
	}
	return g, err
}
