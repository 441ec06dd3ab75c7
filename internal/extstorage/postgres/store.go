// Package postgres keeps records in PostgreSQL, on one server or distributed by
// Citus.
//
// A write is one call of a function of the migrations, which locks the install,
// decides by the rules of package extstorage, restated there, and writes: one
// round trip, one transaction. Values that depend on stored ones are computed from
// what was read before the call, which fails if a record has changed; then they are
// computed once more, in a transaction that takes the lock first. A read is one statement, and so one snapshot. The
// tenant is the distribution column on Citus and stands in every statement but
// those that find what the sweep has to do.
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
	"holdfast/internal/outbox"
	outboxpg "holdfast/internal/outbox/postgres"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations are the schema changes of this backend.
func Migrations() (migrate.Set, error) {
	return migrate.Load("extstorage", migrations, "migrations")
}

// Store implements extstorage.Store, Inspector, Registry and Installs.
type Store struct {
	db    *pgdb.DB
	set   func() (migrate.Set, error)
	waker *outbox.Waker
	queue *ext.WriteQueue

	revisions revisions
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

// New returns a store on a database that Migrations have been applied to, or
// will be before the first use.
func New(db *pgdb.DB, o Options) *Store {
	_, _, most := db.Connections()
	return &Store{db: db, set: sync.OnceValues(Migrations), waker: o.Waker, queue: ext.NewWriteQueue(min(writersOfOne, (most+1)/2))}
}

// writersOfOne is how many connections the writes of an install have at most: one
// holds its lock, and the next wait for it while the answer is on its way.
const writersOfOne = 4

// Ping implements extstorage.Store. It reads the ledger each time: a newer
// release may change the tables of a server that runs.
func (s *Store) Ping(ctx context.Context) error {
	return migrate.Ready(ctx, s.set, s.db.Pending, "the extension storage's database needs %d migrations: run holdfast migrate")
}

// Outbox is where the events of the audit wait to be published.
func Outbox(db *pgdb.DB) outbox.Box { return auditTable().Open(db) }

func auditTable() *outboxpg.Outbox {
	return outboxpg.New(outbox.Table{Name: ext.AuditTable, Owner: "tenant_id", Stream: "extension_install_id", Type: "uuid"})
}

// moment is a Moment as the driver sends it; 0 is NULL.
func moment(m ext.Moment) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: m.Time(), Valid: m != 0}
}

// momentOf is a moment of the database; NULL is 0.
func momentOf(t pgtype.Timestamptz) ext.Moment {
	if !t.Valid {
		return 0
	}
	return ext.At(t.Time)
}

// now is the moment of a step, which is never NULL.
func now(m ext.Moment) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: m.Time(), Valid: true}
}

// before is the moment that is older than a step by the time for which
// something is kept.
func before(m ext.Moment, kept time.Duration) pgtype.Timestamptz {
	return now(m - ext.Moment(kept.Milliseconds()))
}
