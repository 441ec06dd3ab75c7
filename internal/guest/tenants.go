package guest

import (
	"sync/atomic"
	"time"

	"holdfast/internal/clock"
)

// TenantService receives the events that suspend and reinstate tenants, and says who is suspended.
type TenantService struct {
	TenantOptions
	stale      atomic.Bool // the copy could not be changed
	reconciled time.Time   // when Repair last replaced the copy; only Repair uses it
}

// TenantOptions are what a TenantService needs. Store and Clock are required.
type TenantOptions struct {
	Store Suspensions
	Hot   HotSuspensions // nil: there is no copy, and only events are received
	Clock clock.Clock
	Types TenantTypes // those of DefaultTenantTypes if it has none

	Degraded Degraded
}

// NewTenants returns a service.
func NewTenants(o TenantOptions) *TenantService {
	if o.Types.Suspended == nil {
		o.Types = DefaultTenantTypes()
	}
	return &TenantService{TenantOptions: o}
}
