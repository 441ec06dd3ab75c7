// Package postgres stores extension storage in PostgreSQL, on one server or distributed by Citus.
//
// A write is a call to a PL/pgSQL function, which locks the install and applies the rules of package extstorage in a
// single round trip and transaction. A read is a single statement and snapshot. On Citus the tenant is the
// distribution column, used by every statement except the sweep's search for work.
package postgres

import (
	"context"
	"embed"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/db/migrate"
	"holdfast/internal/db/pgdb"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/backend"
	"holdfast/internal/outbox"
	outboxpg "holdfast/internal/outbox/postgres"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the schema's history.
func Migrations() (migrate.Set, error) {
	return migrate.Load("extstorage", migrations, "migrations")
}

// Store keeps records in PostgreSQL or Citus, distributed by tenant: statements with Key run on the tenant's node. It
// is safe for concurrent use.
type Store struct {
	db    *pgdb.DB
	set   func() (migrate.Set, error)
	waker *outbox.Waker
	queue *ext.WriteQueue

	revisions revisions
}

var _ backend.Indexed = (*Store)(nil)

// Options configures a Store. Waker may be nil.
type Options struct {
	Waker *outbox.Waker
}

// New returns a store on a database with Migrations applied.
func New(db *pgdb.DB, o Options) *Store {
	_, _, maxOpen := db.Connections()
	return &Store{db: db.Distributed("ext_storage_records"), set: sync.OnceValues(Migrations), waker: o.Waker, queue: ext.NewWriteQueue(min(writersOfOne, (maxOpen+1)/2))}
}

// writersOfOne limits connections for an install's writes: one write holds the lock, and others wait for it while its
// response is in transit.
const writersOfOne = 4

// Ping implements extstorage.Store.
func (s *Store) Ping(ctx context.Context) error {
	return migrate.Ready(ctx, s.set, s.db.Pending, "the extension storage's database needs %d migrations: run holdfast migrate")
}

// Outbox returns the audit events for delivery.
func (s *Store) Outbox() outbox.Box { return auditTable().Open(s.db) }

// auditTable describes the outbox table for audit events.
func auditTable() *outboxpg.Outbox {
	return outboxpg.New(outbox.Table{Name: ext.AuditTable, Owner: "tenant_id", Stream: "extension_install_id", Type: "uuid"})
}

// moment stores 0 as NULL.
func moment(m ext.Moment) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: m.Time(), Valid: m != 0}
}

// momentOf returns 0 for NULL.
func momentOf(t pgtype.Timestamptz) ext.Moment {
	if !t.Valid {
		return 0
	}
	return ext.At(t.Time)
}

// now returns a parameter that is never NULL.
func now(m ext.Moment) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: m.Time(), Valid: true}
}

// before returns the time before which rows are older than kept.
func before(m ext.Moment, kept time.Duration) pgtype.Timestamptz {
	return now(m - ext.Moment(kept.Milliseconds()))
}

func tenant(o ext.Owner) pgdb.Arg { return pgdb.Arg{Param: "p_tenant uuid", Value: string(o.Tenant)} }

// install is the parameter for functions.
func install(o ext.Owner) pgdb.Arg {
	return pgdb.Arg{Param: "p_install uuid", Value: string(o.Install)}
}
