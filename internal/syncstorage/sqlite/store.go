// Package sqlite stores Firefox Sync data in a SQLite file.
//
// A write runs in the file's group-commit writer, which serves as the write lock: it reads the current state, applies
// the rules of package syncstorage, and writes. A read uses a snapshot.
package sqlite

import (
	"context"
	"embed"
	"sync"

	"holdfast/internal/db/migrate"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/syncstorage"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the schema's history.
func Migrations() (migrate.Set, error) {
	return migrate.Load("syncstorage", migrations, "migrations")
}

// Store implements syncstorage.Store, keyed by Owner.UID.
type Store struct {
	db  *sqlitedb.DB
	set func() (migrate.Set, error)
	// collection IDs by name
	names sync.Map
	pages syncstorage.Pages
}

var _ syncstorage.Store = (*Store)(nil)

// New returns a store on a file with Migrations applied.
func New(db *sqlitedb.DB) *Store { return &Store{db: db, set: sync.OnceValues(Migrations)} }

// Ping implements syncstorage.Store.
func (s *Store) Ping(ctx context.Context) error {
	return migrate.Ready(ctx, s.set, s.db.Pending, "the sync database needs %d migrations")
}

// orNull stores an unset value as NULL.
func orNull[T any](o syncstorage.Optional[T]) any {
	if !o.Set {
		return nil
	}
	return o.Value
}
