package jsonschema

import (
	linked "container/list"
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/fairshare"
)

// Cache caches compiled schemas by document hash, within a byte budget shared by tenants (package fairshare). The
// first tenant that needs a schema is charged; a tenant above its share evicts its own schemas.
type Cache struct {
	budget    *fairshare.Pool // bytes
	compilers *fairshare.Pool

	mu        sync.Mutex
	schemas   map[documentHash]*Entry
	recent    *linked.List   // entries, the latest use first
	tenants   map[string]int // bytes by tenant
	evictions int64
	waiting   int // uses waiting for bytes
}

type documentHash = [sha256.Size]byte

// Entry is a cached schema, from Cache.Acquire until Cache.Release.
type Entry struct {
	Schema *Schema

	hash    documentHash
	tenant  string // charged for it
	users   int    // unreleased uses
	bytes   int
	element *linked.Element // in Cache.recent

	done chan struct{} // closed when Schema and err are set
	err  error
}

const (
	// Compilations limits concurrent compilations; a tenant may run one less.
	Compilations = 2

	// CompileMemory limits a compilation's memory, in addition to the budget.
	CompileMemory = 4 * MaxCompiled

	// waits is how many uses may wait for memory or compilation, for at most waitMost.
	waits    = 256
	waitMost = 10 * time.Second
)

// NewCache returns a cache with a budget of at least MinSchemaMemory.
func NewCache(bytes int) *Cache {
	return &Cache{
		budget:    fairshare.New(int64(max(bytes, MinSchemaMemory)), waits, waitMost),
		compilers: fairshare.New(Compilations, waits, waitMost),
		schemas:   map[documentHash]*Entry{}, recent: linked.New(), tenants: map[string]int{},
	}
}

// CacheStats are a cache's figures for metrics.
type CacheStats struct {
	Schemas   int
	Bytes     int
	Capacity  int // maximum bytes
	Evictions int64
}

func (c *Cache) Stats() CacheStats {
	s := c.budget.Stats()
	c.mu.Lock()
	defer c.mu.Unlock()
	return CacheStats{Schemas: len(c.schemas), Bytes: int(s.Used), Capacity: int(s.Capacity), Evictions: c.evictions}
}

// Acquire returns a document's schema, charged to the tenant, until Release. Concurrent callers compile a document
// once; errors are not cached. Without free memory, Acquire waits a few seconds, then returns errcode.Unavailable.
func (c *Cache) Acquire(ctx context.Context, tenant string, text []byte) (*Entry, error) {
	hash := sha256.Sum256(text)
	for {
		e, mine := c.enter(hash, tenant)
		if mine {
			c.fill(ctx, e, text)
		} else {
			select {
			case <-e.done:
			case <-ctx.Done():
				c.Release(e)
				return nil, errcode.Wrap(errcode.Unavailable, "compiling the schema timed out: retry later", context.Cause(ctx))
			}
		}
		if e.err == nil {
			return e, nil
		}
		if mine || !errors.Is(e.err, errLeft) {
			return nil, e.err
		}
		// The compiling request ended; this one takes over.
	}
}

// fill compiles the entry's schema. It notifies waiting requests even after a panic.
func (c *Cache) fill(ctx context.Context, e *Entry, text []byte) {
	e.err = errcode.New(errcode.Internal, "compiling the schema failed")
	defer func() {
		if e.err != nil {
			c.forget(e)
		}
		close(e.done)
	}()
	e.Schema, e.err = c.compile(ctx, e, text)
}

// errLeft means that the request that compiled for all ended; another compiles again.
var errLeft = errors.New("the request has ended")

// enter begins a use. mine means that the caller compiles the schema.
func (c *Cache) enter(hash documentHash, tenant string) (e *Entry, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e = c.schemas[hash]
	if e == nil {
		e = &Entry{hash: hash, tenant: tenant, done: make(chan struct{})}
		e.element = c.recent.PushFront(e)
		c.schemas[hash] = e
		mine = true
	}
	e.users++
	c.recent.MoveToFront(e.element)
	return e, mine
}

// Release ends a use. An unused entry stays in the cache unless other uses wait for its bytes.
func (c *Cache) Release(e *Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.users--; e.users == 0 && c.waiting > 0 && e.bytes > 0 {
		c.drop(e)
	}
}

// forget removes an entry whose compilation failed.
func (c *Cache) forget(e *Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recent.Remove(e.element)
	delete(c.schemas, e.hash)
}

// drop evicts an unused entry. The caller holds the lock.
func (c *Cache) drop(e *Entry) {
	c.recent.Remove(e.element)
	delete(c.schemas, e.hash)
	if c.tenants[e.tenant] -= e.bytes; c.tenants[e.tenant] == 0 {
		delete(c.tenants, e.tenant)
	}
	c.budget.Release(e.tenant, int64(e.bytes))
	c.evictions++
}

// compile compiles and charges a schema.
func (c *Cache) compile(ctx context.Context, e *Entry, text []byte) (s *Schema, err error) {
	err = c.compilers.Do(ctx, e.tenant, func() error {
		if s, err = Compile(text); err != nil {
			return err
		}
		return c.charge(ctx, e, s.bytes())
	})
	if err != nil {
		if ctx.Err() != nil {
			err = errcode.Wrap(errcode.Unavailable, "compiling the schema timed out: retry later", errors.Join(errLeft, err))
		}
		return nil, err
	}
	s.grow = func(bytes int) bool { return c.take(e, bytes) }
	return s, nil
}

// charge charges bytes to the entry's tenant, and waits if they are in use.
func (c *Cache) charge(ctx context.Context, e *Entry, bytes int) error {
	if c.take(e, bytes) {
		return nil
	}
	c.mu.Lock()
	c.waiting++
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.waiting--
		c.mu.Unlock()
	}()
	if c.take(e, bytes) { // another use released bytes before this use counted as waiting
		return nil
	}
	if err := c.budget.Acquire(ctx, e.tenant, int64(bytes)); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.charged(e, bytes)
	return nil
}

// take charges bytes if unused entries can make space.
func (c *Cache) take(e *Entry, bytes int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.budget.TryAcquire(e.tenant, int64(bytes)) {
		victim := c.victim(e.tenant, bytes)
		if victim == nil {
			return false
		}
		c.drop(victim)
	}
	c.charged(e, bytes)
	return true
}

func (c *Cache) charged(e *Entry, bytes int) {
	e.bytes += bytes
	c.tenants[e.tenant] += bytes
}

// victim returns the least recently used unused entry: the tenant's own if it would exceed its share, else the
// largest tenant's.
func (c *Cache) victim(tenant string, bytes int) *Entry {
	capacity := int(c.budget.Stats().Capacity)
	own := c.tenants[tenant]
	sharing := len(c.tenants)
	if own == 0 {
		sharing++
	}
	limited := own > 0 && own+bytes > capacity/sharing
	var largest *Entry
	for at := c.recent.Back(); at != nil; at = at.Prev() {
		switch e := at.Value.(*Entry); { //nolint:forcetypeassert // there are no others
		case e.users > 0 || limited && e.tenant != tenant:
		case largest == nil || c.tenants[e.tenant] > c.tenants[largest.tenant]:
			largest = e
		}
	}
	return largest
}
