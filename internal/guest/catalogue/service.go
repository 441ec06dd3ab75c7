// Package catalogue shows guests the properties of a catalogue, with caches in front of it.
package catalogue

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
)

// Service answers searches and views of properties from a catalogue, with caches in front
// of it. It does not show what belongs to suspended tenants.
type Service struct {
	opts     Options
	flights  singleflight.Group
	breakers sync.Map // *breaker by the name of a cache
}

// Options are the dependencies of a Service. Hot, Clock and Suspended are required.
type Options struct {
	Profile  *guest.Profile // nil: guest.Hotel
	Source   Source         // of a hotel search; nil: every answer is ErrUpstream
	Fetcher  Fetcher        // of other profiles, likewise
	Campaign bool           // search results are cached for longer
	Clock    clock.Clock
	Hot      Hot

	// Local caches while Hot is unavailable, and has copies of what was read from Hot. nil: nothing
	// does.
	Local Hot

	// Suspended returns the suspended ones among the tenants.
	Suspended func(ctx context.Context, tenants ...string) ([]string, error)

	// Cached, if set, is called with the name of a cache and one of CacheStates when it was
	// asked; Called after a call of the catalogue.
	Cached func(cache string, state CacheState)
	Called func(cache string, d time.Duration, err error)

	Degraded guest.Degraded
}

// New returns a service.
func New(o Options) *Service {
	return &Service{opts: o}
}
