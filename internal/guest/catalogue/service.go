// Package catalogue answers searches and views from a hotel catalogue or a profile's upstreams. It caches answers,
// and hides suspended tenants.
package catalogue

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
)

// Service answers from the catalogue. It is safe for concurrent use.
type Service struct {
	opts Options
	// joins this process's loads by key
	flights  singleflight.Group
	breakers sync.Map // *breaker by cache name
}

// Options are a Service's dependencies. Hot, Clock and Suspended are required.
type Options struct {
	// decides which upstreams exist, and owns answers without a tenant
	Profile  *guest.Profile
	Source   Source  // for hotel searches; nil: always ErrUpstream
	Fetcher  Fetcher // for other profiles; nil: always ErrUpstream
	Campaign bool    // cache search results longer
	Clock    clock.Clock
	// shared by all processes
	Hot Hot

	// Local replaces Hot while it is unavailable, and keeps copies of its values. May be nil.
	Local Hot

	// Suspended returns the suspended tenants in tenants.
	Suspended func(ctx context.Context, tenants ...string) ([]string, error)

	// Cached is called after a lookup with a cache name and one of CacheStates; Called, after a catalogue call. Both
	// may be nil.
	Cached func(cache string, state CacheState)
	Called func(cache string, d time.Duration, err error)

	// counts uses of Local and of stale answers; may be nil
	Degraded guest.Degraded
}

// New calls nothing. A service without Source and Fetcher answers ErrUpstream.
func New(o Options) *Service {
	return &Service{opts: o}
}
