// Package sqlite keeps extension storage in one SQLite file.
//
// A write is one step of the file's group-commit writer, which is the lock that
// the service's rules need: the step reads what is there, asks the rules of package
// extstorage, and writes. A read is one snapshot.
package sqlite

import (
	"context"
	"embed"
	"math"
	"sync"

	"holdfast/internal/clock"
	"holdfast/internal/db/migrate"
	"holdfast/internal/db/sqlitedb"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/fault"
	"holdfast/internal/outbox"
	outboxsqlite "holdfast/internal/outbox/sqlite"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations are the schema changes of this backend.
func Migrations() (migrate.Set, error) {
	return migrate.Load("extstorage", migrations, "migrations")
}

// Store implements extstorage.Store, Inspector, Registry and Installs.
type Store struct {
	db    *sqlitedb.DB
	set   func() (migrate.Set, error)
	audit *outboxsqlite.Outbox
	waker *outbox.Waker
	queue *ext.WriteQueue
}

var (
	_ ext.Store     = (*Store)(nil)
	_ ext.Inspector = (*Store)(nil)
	_ ext.Registry  = (*Store)(nil)
	_ ext.Installs  = (*Store)(nil)
	_ ext.Tokens    = (*Store)(nil)
	_ ext.Deletions = (*Store)(nil)
)

// Options of a Store.
type Options struct {
	// Waker, when not nil, wakes the relay of the process after a write that has
	// appended an event to the audit.
	Waker *outbox.Waker
}

// New returns a store on a file that Migrations have been applied to, or will
// be before the first use.
func New(db *sqlitedb.DB, o Options) *Store {
	return &Store{db: db, set: sync.OnceValues(Migrations), audit: newOutbox(), waker: o.Waker, queue: ext.NewWriteQueue(math.MaxInt)}
}

func newOutbox() *outboxsqlite.Outbox {
	return outboxsqlite.New(outbox.Table{Name: ext.AuditTable, Owner: "tenant_id", Stream: "extension_install_id", Type: "uuid"})
}

// Outbox is the table of the audit's events, as a relay needs it.
func (s *Store) Outbox(now clock.Clock) outbox.Box { return s.audit.Open(s.db, now) }

// Ping implements extstorage.Store. It reads the ledger each time: a newer
// release may change the tables of a server that runs.
func (s *Store) Ping(ctx context.Context) error {
	return migrate.Ready(ctx, s.set, s.db.Pending, "the database of extension storage needs %d migrations")
}

// errStopped ends a statement whose reader wants no more rows.
var errStopped = fault.New(fault.Internal, "the reader stopped")

// orNull is an argument that is NULL when it is 0 or empty.
func orNull[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}
