// Package backend has the interface that a database implements for buckets.
package backend

import (
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/maintenance"
	"holdfast/internal/outbox"
)

// Store stores everything of the service in one database, except the bodies of objects.
type Store interface {
	buckets.Backend
	buckets.Nodes
	buckets.Lifecycles
	maintenance.Store

	// Outbox returns a destination's events for delivery.
	Outbox(destination string) outbox.Box
	// DeadEvents returns the events of all destinations that were given up.
	DeadEvents() outbox.Dead
	// OnEvents sets the function that is called after a commit with events. Call it before the first request.
	OnEvents(wake func(destination, owner, stream string))
}
