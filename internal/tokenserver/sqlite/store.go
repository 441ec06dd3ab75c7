// Package sqlite stores accounts and nodes in a SQLite file. Writes are transactions in the single writer, which
// serves as the write lock, even against other processes. Nearly all sign-ins only read.
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

// Migrations returns the schema's history.
func Migrations() (migrate.Set, error) {
	return migrate.Load("tokenserver", migrations, "migrations")
}

type Store struct {
	db  *sqlitedb.DB
	set func() (migrate.Set, error)
}

var _ tokenserver.Store = (*Store)(nil)

// New returns a store on a file with Migrations applied.
func New(db *sqlitedb.DB) *Store { return &Store{db: db, set: sync.OnceValues(Migrations)} }

// Ping implements tokenserver.Store.
func (s *Store) Ping(ctx context.Context) error {
	return migrate.Ready(ctx, s.set, s.db.Pending, "the token database needs %d migrations")
}

// nullable stores an unknown mark as NULL.
func nullable(m tokenserver.Mark) any {
	if !m.Known {
		return nil
	}
	return m.Value
}

// optional stores nil as NULL.
func optional[T any](v *T) any {
	if v == nil {
		return nil
	}
	return *v
}
