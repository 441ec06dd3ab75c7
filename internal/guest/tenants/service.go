// Package tenants receives the events that suspend and reinstate tenants, and says who is suspended.
package tenants

import (
	"sync/atomic"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
)

// Service receives the events that suspend and reinstate tenants, and says who is suspended.
type Service struct {
	opts       Options
	stale      atomic.Bool // the copy could not be changed
	reconciled time.Time   // when Repair last replaced the copy; only Repair uses it
	briefs     briefs
}

// Options are the dependencies of a Service. Store and Clock are required.
type Options struct {
	Store Store
	Hot   Hot // nil: there is no copy, and only events are received
	Clock clock.Clock
	Types Types // zero: DefaultTypes

	Degraded guest.Degraded
}

// New returns a service.
func New(o Options) *Service {
	if o.Types.Suspended == nil {
		o.Types = DefaultTypes()
	}
	return &Service{opts: o}
}
