// Package sqlite stores extension storage in a SQLite file.
//
// A write runs in the file's group-commit writer, which serves as the write lock: it reads the current state, applies
// the rules of package extstorage, and writes. A read uses a snapshot.
package sqlite

import (
	"context"
	"embed"
	"math"
	"sync"

	"holdfast/internal/clock"
	"holdfast/internal/db/migrate"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/backend"
	"holdfast/internal/outbox"
	outboxsqlite "holdfast/internal/outbox/sqlite"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the schema's history.
func Migrations() (migrate.Set, error) {
	return migrate.Load("extstorage", migrations, "migrations")
}

// Store keeps records in an SQLite file. Writes wait in a queue, so that installs take turns. It is safe for concurrent
// use.
type Store struct {
	db    *sqlitedb.DB
	set   func() (migrate.Set, error)
	audit *outboxsqlite.Outbox
	waker *outbox.Waker
	clock clock.Clock
	queue *ext.WriteQueue
}

var _ backend.Store = (*Store)(nil)

// Options configures a Store. Waker may be nil. Only Outbox uses Clock.
type Options struct {
	Waker *outbox.Waker
	Clock clock.Clock
}

// New returns a store on a file with Migrations applied.
func New(db *sqlitedb.DB, o Options) *Store {
	return &Store{db: db, set: sync.OnceValues(Migrations), audit: newOutbox(), waker: o.Waker, clock: o.Clock, queue: ext.NewWriteQueue(math.MaxInt)}
}

// newOutbox describes the outbox table for audit events.
func newOutbox() *outboxsqlite.Outbox {
	return outboxsqlite.New(outbox.Table{Name: ext.AuditTable, Owner: "tenant_id", Stream: "extension_install_id", Type: "uuid"})
}

// Outbox returns the audit events for delivery.
func (s *Store) Outbox() outbox.Box { return s.audit.Open(s.db, s.clock) }

// Ping implements extstorage.Store.
func (s *Store) Ping(ctx context.Context) error {
	return migrate.Ready(ctx, s.set, s.db.Pending, "the extension storage database needs %d migrations")
}

var errStopped = errcode.New(errcode.Internal, "the reader stopped")

// orNull stores a zero value as NULL.
func orNull[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}
