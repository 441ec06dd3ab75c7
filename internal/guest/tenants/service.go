// Package tenants receives events that suspend and reinstate tenants, and knows which tenants are suspended.
package tenants

import (
	"sync/atomic"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
)

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

func New(o Options) *Service {
	if o.Types.Suspended == nil {
		o.Types = DefaultTypes()
	}
	return &Service{opts: o}
}
