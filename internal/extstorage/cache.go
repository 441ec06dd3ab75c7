package extstorage

import (
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	grantsKept   = 4096 // claims are at most 8 KiB, usually below 1 KiB
	installsKept = 10_000
	revokedKept  = 8 << 20 // bytes of revoked token IDs
	schemasKept  = 512     // documents of up to 64 KiB
	freeKept     = 20_000  // most namespaces have no schema

	// CacheBytes is the caches' maximum memory, mostly claims and schemas.
	CacheBytes = grantsKept*(8<<10) + schemasKept*MaxSchemaBytes + 8<<20

	// installAge is the maximum age of a cached install, and the maximum delay of a revocation.
	installAge = time.Second
)

// keep returns a cache for n entries. It panics only for n below 1.
func keep[K comparable, V any](n int) *lru.Cache[K, V] {
	c, err := lru.New[K, V](n)
	if err != nil {
		panic(err)
	}
	return c
}

// seenInstall is a cached registration with its revoked tokens.
type seenInstall struct {
	Install
	revoked []string  // token IDs, ascending
	at      time.Time // when it was read
}

// hasRevoked reports whether a token was revoked by its ID.
func (in *seenInstall) hasRevoked(id string) bool {
	_, found := slices.BinarySearch(in.revoked, id)
	return found
}

// usable returns why the token must not be used: a deletion, a revoked install, or tokens before a restore. Service
// tokens depend only on the tenant's time.
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
	if after != 0 && !t.Ends.IsZero() && At(t.Issued.Add(time.Second)) <= after { // iat is in whole seconds
		return ErrTokenRevoked
	}
	return nil
}

// size estimates the memory for revoked tokens in bytes.
func (in *seenInstall) size() (n int) {
	for _, id := range in.revoked {
		n += len(id) + 16
	}
	return n
}

// installCache caches installs, limited by number and by the memory for revoked tokens.
type installCache struct {
	mu   sync.Mutex
	seen *simplelru.LRU[Owner, seenInstall]
	size int // bytes for revoked tokens
}

// newInstallCache returns an empty cache.
func newInstallCache() *installCache {
	c := &installCache{}
	seen, err := simplelru.NewLRU(installsKept, func(_ Owner, in seenInstall) { c.size -= in.size() })
	if err != nil {
		panic(err)
	}
	c.seen = seen
	return c
}

// get returns an entry of any age; the caller checks at.
func (c *installCache) get(o Owner) (seenInstall, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen.Get(o)
}

// add replaces an entry, and drops the oldest entries over the memory limit.
func (c *installCache) add(o Owner, in seenInstall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.Remove(o) // Add would not subtract its size
	c.seen.Add(o, in)
	for c.size += in.size(); c.size > revokedKept && c.seen.Len() > 1; {
		c.seen.RemoveOldest()
	}
}

// remove removes an install. Call it even after an error, because the change may be committed.
func (c *installCache) remove(o Owner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.Remove(o)
}

// namespaceOf is a namespace in an install.
type namespaceOf struct {
	Owner
	Namespace
}

// seenSchemas caches namespaces with and without an active schema. The caches need no common lock, because the Store
// rejects writes based on outdated entries.
type seenSchemas struct {
	schemas *lru.Cache[namespaceOf, Schema]
	free    *lru.Cache[namespaceOf, struct{}]
}

// newSeenSchemas returns empty caches.
func newSeenSchemas() seenSchemas {
	return seenSchemas{keep[namespaceOf, Schema](schemasKept), keep[namespaceOf, struct{}](freeKept)}
}

// get returns the active schema, with version 0 for a namespace known to have none. ok is false if nothing is known.
func (s *seenSchemas) get(at namespaceOf) (Schema, bool) {
	if sc, ok := s.schemas.Get(at); ok {
		return sc, true
	}
	_, ok := s.free.Get(at)
	return Schema{}, ok
}

// add notes the active schema; version 0 means that the namespace is not validated.
func (s *seenSchemas) add(at namespaceOf, sc Schema) {
	s.remove(at)
	if sc.Version == 0 {
		s.free.Add(at, struct{}{})
	} else {
		s.schemas.Add(at, sc)
	}
}

// remove forgets a namespace after a change by this process, or when the Store rejected the version.
func (s *seenSchemas) remove(at namespaceOf) {
	s.schemas.Remove(at)
	s.free.Remove(at)
}

// ParseGrant caches grants, because parsing takes longer than the rest of a cached token check. Grants are shared; do
// not modify them.
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
