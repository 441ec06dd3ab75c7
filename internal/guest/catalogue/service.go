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

type Service struct {
	opts     Options
	flights  singleflight.Group
	breakers sync.Map // *breaker by cache name
}

// Options are a Service's dependencies. Hot, Clock and Suspended are required.
type Options struct {
	Profile  *guest.Profile
	Source   Source  // for hotel searches; nil: always ErrUpstream
	Fetcher  Fetcher // for other profiles; nil: always ErrUpstream
	Campaign bool    // cache search results longer
	Clock    clock.Clock
	Hot      Hot

	// Local replaces Hot while it is unavailable, and keeps copies of its values. May be nil.
	Local Hot

	// Suspended returns the suspended tenants in tenants.
	Suspended func(ctx context.Context, tenants ...string) ([]string, error)

	// Cached is called after a lookup with a cache name and one of CacheStates; Called, after a catalogue call. Both
	// may be nil.
	Cached func(cache string, state CacheState)
	Called func(cache string, d time.Duration, err error)

	Degraded guest.Degraded
}

func New(o Options) *Service {
	return &Service{opts: o}
}
