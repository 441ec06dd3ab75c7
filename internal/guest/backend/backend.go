// Package backend defines the interfaces that databases and hot state implement for the guest service.
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

// Store stores durable data. Methods are atomic. After errcode.Unavailable they had no effect, except that a lost
// connection may leave a mutation's result unknown; repeating it is safe.
type Store interface {
	guest.Store
	telemetry.Store
	handoffs.Store
	bots.Store
	tenants.Store
	retention.Store

	Outbox() outbox.Retaining

	// Ping returns errcode.Unavailable if the engine is unreachable or its schema does not fit this binary.
	Ping(ctx context.Context) error
}

// Hot stores expendable data: active sessions, copied database content, caches, counters and locks. It may lose
// anything at any time; services then continue as with an empty Redis. Methods are atomic. After errcode.Unavailable
// their effect is unknown.
type Hot interface {
	guest.Hot
	catalogue.Hot
	bots.Hot
	tenants.Hot

	Ping(ctx context.Context) error
}
