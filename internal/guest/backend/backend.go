// Package backend has the interfaces that the databases and the hot state of guests implement.
package backend

import (
	"context"

	"holdfast/internal/guest"
	"holdfast/internal/guest/bots"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/guest/retention"
	"holdfast/internal/guest/telemetry"
	"holdfast/internal/guest/tenants"
	"holdfast/internal/outbox"
)

// Store stores what must not be lost. Every method is atomic. Any method may return
// errcode.Unavailable when the engine is unavailable. Then it had no effect, except that
// a lost connection may leave the result of a mutation unknown; repeating it is safe.
//
// The test suite in storetest defines the contract.
type Store interface {
	guest.Store
	telemetry.Store
	handoffs.Store
	bots.Store
	tenants.Store
	retention.Store

	// Outbox returns the events for a relay.
	Outbox() outbox.Retaining

	// Ping checks that the engine is reachable and has the schema that this binary
	// requires. Otherwise it returns errcode.Unavailable with the reason.
	Ping(ctx context.Context) error
}

// Hot stores what may be lost: sessions while they are used, copies of what the database
// has, caches, counters and locks. It may lose any of it at any time; the services then
// continue as after a restart of an empty Redis.
//
// Every method is atomic. Any may return errcode.Unavailable; then it is not known whether
// it had an effect.
//
// The test suite in hotstatetest defines the contract.
type Hot interface {
	guest.Hot
	catalogue.Hot
	bots.Hot
	tenants.Hot

	// Ping checks that the store is reachable. Otherwise it returns errcode.Unavailable with
	// the reason.
	Ping(ctx context.Context) error
}
