// Package sqlite stores Firefox Sync data in one SQLite file.
//
// A write runs in the file's group-commit writer, which is the lock that the rules
// of package syncstorage require: it reads the current state, applies the rules,
// and writes. A read uses one snapshot.
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

// Migrations returns the schema changes of this backend.
func Migrations() (migrate.Set, error) {
	return migrate.Load("syncstorage", migrations, "migrations")
}

// Store implements syncstorage.Store. Users are keyed by Owner.UID.
type Store struct {
	db    *sqlitedb.DB
	set   func() (migrate.Set, error)
	names sync.Map // collection name (string) to ID (int64); IDs never change
	pages syncstorage.Pages
}

var _ syncstorage.Store = (*Store)(nil)

// New returns a store on a file. Apply Migrations to the file before the first use.
func New(db *sqlitedb.DB) *Store { return &Store{db: db, set: sync.OnceValues(Migrations)} }

// Ping implements syncstorage.Store. It reads the table of migrations each time,
// because a newer release may migrate the file while this server runs.
func (s *Store) Ping(ctx context.Context) error {
	return migrate.Ready(ctx, s.set, s.db.Pending, "the sync database needs %d migrations")
}

// orNull returns the value as an argument of a statement, or NULL if it is not set.
func orNull[T any](o syncstorage.Optional[T]) any {
	if !o.Set {
		return nil
	}
	return o.Value
}
