// Package postgres stores extension storage in PostgreSQL, on one server or
// distributed by Citus.
//
// A write is one call of a PL/pgSQL function from the migrations, which locks the
// install, applies the rules of package extstorage and writes, in one round trip
// and one transaction. Values that depend on stored ones are computed from what was
// read before the call. If a record has changed since, the call fails, and the
// values are computed again in a transaction that first acquires the lock. A read
// is one statement and therefore one snapshot. The tenant is the distribution
// column on Citus and occurs in every statement except those that find work for the
// sweep.
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
	"holdfast/internal/extstorage/inspection"
	"holdfast/internal/outbox"
	outboxpg "holdfast/internal/outbox/postgres"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the schema changes of this backend.
func Migrations() (migrate.Set, error) {
	return migrate.Load("extstorage", migrations, "migrations")
}

// Store implements extstorage.Store, Registry and Installs, and inspection.Store.
type Store struct {
	db    *pgdb.DB
	set   func() (migrate.Set, error)
	waker *outbox.Waker
	queue *ext.WriteQueue

	revisions revisions
}

var (
	_ ext.Store        = (*Store)(nil)
	_ inspection.Store = (*Store)(nil)
	_ ext.Registry     = (*Store)(nil)
	_ ext.Installs     = (*Store)(nil)
	_ ext.Tokens       = (*Store)(nil)
	_ ext.Deletions    = (*Store)(nil)
)

// Options configure a Store.
type Options struct {
	// Waker, if not nil, wakes the audit relay of the process after a write that
	// appended an event.
	Waker *outbox.Waker
}

// New returns a store on a database. Apply Migrations to the database before the
// first use.
func New(db *pgdb.DB, o Options) *Store {
	_, _, most := db.Connections()
	return &Store{db: db.Distributed("ext_storage_records"), set: sync.OnceValues(Migrations), waker: o.Waker, queue: ext.NewWriteQueue(min(writersOfOne, (most+1)/2))}
}

// writersOfOne is the maximum number of connections for the writes of an install:
// one holds its lock, and the others wait for it while its answer is in transit.
const writersOfOne = 4

// Ping implements extstorage.Store. It reads the table of migrations each time,
// because a newer release may migrate the database while this server runs.
func (s *Store) Ping(ctx context.Context) error {
	return migrate.Ready(ctx, s.set, s.db.Pending, "the extension storage's database needs %d migrations: run holdfast migrate")
}

// Outbox returns the audit's table of events for a relay. Its statements share the connections for a
// node of Citus with those of requests.
func (s *Store) Outbox() outbox.Box { return auditTable().Open(s.db) }

func auditTable() *outboxpg.Outbox {
	return outboxpg.New(outbox.Table{Name: ext.AuditTable, Owner: "tenant_id", Stream: "extension_install_id", Type: "uuid"})
}

// moment converts a Moment for the driver; 0 becomes NULL.
func moment(m ext.Moment) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: m.Time(), Valid: m != 0}
}

// momentOf converts a time from the database; NULL becomes 0.
func momentOf(t pgtype.Timestamptz) ext.Moment {
	if !t.Valid {
		return 0
	}
	return ext.At(t.Time)
}

// now converts the time of an operation, which is never NULL.
func now(m ext.Moment) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: m.Time(), Valid: true}
}

// before returns the time before which rows are older than their retention.
func before(m ext.Moment, kept time.Duration) pgtype.Timestamptz {
	return now(m - ext.Moment(kept.Milliseconds()))
}

// tenant is an argument of every function.
func tenant(o ext.Owner) pgdb.Arg { return pgdb.Arg{Param: "p_tenant uuid", Value: string(o.Tenant)} }

// install is an argument of every function.
func install(o ext.Owner) pgdb.Arg {
	return pgdb.Arg{Param: "p_install uuid", Value: string(o.Install)}
}
