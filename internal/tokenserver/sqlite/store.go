// Package sqlite keeps the accounts and nodes of a tokenserver in one SQLite
// file.
//
// A write is one step of the file's writer, which is the lock that the service's
// rules need, also against other processes on the file. A sign-in that changes
// nothing, which nearly all do not, is a read.
package sqlite

import (
	"context"
	"embed"
	"sync"

	"holdfast/internal/db/migrate"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/tokenserver"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations are the schema changes of this backend.
func Migrations() (migrate.Set, error) {
	return migrate.Load("tokenserver", migrations, "migrations")
}

// Store implements tokenserver.Store.
type Store struct {
	db  *sqlitedb.DB
	set func() (migrate.Set, error)
}

var _ tokenserver.Store = (*Store)(nil)

// New returns a store on a file that Migrations have been applied to, or will
// be before the first use.
func New(db *sqlitedb.DB) *Store { return &Store{db: db, set: sync.OnceValues(Migrations)} }

// Ping implements tokenserver.Store. It reads the ledger each time: a newer
// release may change the tables of a server that runs.
func (s *Store) Ping(ctx context.Context) error {
	return migrate.Ready(ctx, s.set, s.db.Pending, "the token database needs %d migrations")
}

// nullable is a mark as a parameter.
func nullable(m tokenserver.Mark) any {
	if !m.Known {
		return nil
	}
	return m.Value
}

// optional is what may be left as it is, as a parameter.
func optional[T any](v *T) any {
	if v == nil {
		return nil
	}
	return *v
}
