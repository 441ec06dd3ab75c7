// Package sqlite keeps Firefox Sync storage in one SQLite file.
//
// A write is one step of the file's group-commit writer, which is the lock
// that the service's rules need: the step reads what is there, asks the rules of
// package syncstorage, and writes. A read is one snapshot.
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

// Migrations are the schema changes of this backend.
func Migrations() (migrate.Set, error) {
	return migrate.Load("syncstorage", migrations, "migrations")
}

// Store implements syncstorage.Store. Users are keyed by Owner.UID.
type Store struct {
	db    *sqlitedb.DB
	set   func() (migrate.Set, error)
	names sync.Map // collection name (string) to id (int64); ids never change
	pages syncstorage.Pages
}

var _ syncstorage.Store = (*Store)(nil)

// New returns a store on a file that Migrations have been applied to, or will
// be before the first use.
func New(db *sqlitedb.DB) *Store { return &Store{db: db, set: sync.OnceValues(Migrations)} }

// Ping implements syncstorage.Store. It reads the ledger each time: a newer
// release may change the tables of a server that runs.
func (s *Store) Ping(ctx context.Context) error {
	return migrate.Ready(ctx, s.set, s.db.Pending, "the sync database needs %d migrations")
}

// orNull is an optional value as an argument.
func orNull[T any](o syncstorage.Optional[T]) any {
	if !o.Set {
		return nil
	}
	return o.Value
}
