package guest

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"holdfast/internal/clock"
)

// CatalogueService answers searches and views of properties from a catalogue, with caches in front
// of it. It does not show what belongs to suspended tenants.
type CatalogueService struct {
	CatalogueOptions
	flights  singleflight.Group
	breakers sync.Map // *breaker by the name of a cache
}

// CatalogueOptions are what a CatalogueService needs. Hot, Clock and Suspended are required.
type CatalogueOptions struct {
	Source   Catalogue // nil: every answer is ErrUpstream
	Campaign bool      // search results are cached for longer
	Clock    clock.Clock
	Hot      HotCache

	// Local caches while Hot is unavailable, and has copies of what was read from Hot. nil: nothing
	// does.
	Local HotCache

	// Suspended returns those of the tenants that are suspended.
	Suspended func(ctx context.Context, tenants ...string) ([]string, error)

	// Cached, if set, is called with the name of a cache and one of CacheStates when it was
	// asked; Called after a call of the catalogue.
	Cached func(cache string, state CacheState)
	Called func(cache string, d time.Duration, err error)

	Degraded Degraded
}

// NewCatalogue returns a service.
func NewCatalogue(o CatalogueOptions) *CatalogueService {
	return &CatalogueService{CatalogueOptions: o}
}
