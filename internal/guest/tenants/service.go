// Package tenants receives events that suspend and reinstate tenants, and knows which tenants are suspended.
package tenants

import (
	"sync/atomic"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
)

// Service applies tenant events, and answers which tenants are suspended. It is safe for concurrent use.
type Service struct {
	opts       Options
	stale      atomic.Bool
	reconciled time.Time // last copy refresh; used by Repair only
	briefs     briefs
}

// Options are a Service's dependencies. Store and Clock are required.
type Options struct {
	Store Store
	Hot   Hot // nil: no copy, only receives events
	Clock clock.Clock
	Types Types // zero: DefaultTypes

	Degraded guest.Degraded
}

// New returns a Service. Run Repair and EndBriefs beside it.
func New(o Options) *Service {
	if o.Types.Suspended == nil {
		o.Types = DefaultTypes()
	}
	return &Service{opts: o}
}
