// Package postgres stores Firefox Sync data in PostgreSQL, on one server or
// distributed by Citus.
//
// A write is one call of a PL/pgSQL function from the migrations, which locks the
// user, applies the rules of package syncstorage and writes, in one round trip and
// one transaction. A read is one statement and therefore one snapshot. Users are
// keyed by Owner.UID. It is the distribution column on Citus and occurs in every
// statement except those that find work for the sweep.
package postgres

import (
	"context"
	"embed"
	"sync"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/db/migrate"
	"holdfast/internal/db/pgdb"
	ss "holdfast/internal/syncstorage"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the schema changes of this backend.
func Migrations() (migrate.Set, error) {
	return migrate.Load("syncstorage", migrations, "migrations")
}

// Store implements syncstorage.Store.
type Store struct {
	db    *pgdb.DB
	set   func() (migrate.Set, error)
	names sync.Map // collection name (string) to ID (int32); IDs never change
	pages ss.Pages
}

var _ ss.Store = (*Store)(nil)

// New returns a store on a database. Apply Migrations to the database before the
// first use.
func New(db *pgdb.DB) *Store {
	return &Store{db: db.Distributed("user_collections"), set: sync.OnceValues(Migrations)}
}

// Ping implements syncstorage.Store. It reads the table of migrations each time,
// because a newer release may migrate the database while this server runs.
func (s *Store) Ping(ctx context.Context) error {
	return migrate.Ready(ctx, s.set, s.db.Pending, "the sync database needs %d migrations: run holdfast migrate")
}

// unknown is the ID of a collection whose name is not in the table of collections.
// No row has it.
const unknown int32 = -1

// lookup returns the ID of a collection's name, or unknown.
func (s *Store) lookup(ctx context.Context, name string) (int32, error) {
	if id, ok := s.names.Load(name); ok {
		return id.(int32), nil
	}
	var id int32
	found, err := s.db.QueryRow(ctx, sqlCollectionID, []any{name}, &id)
	if err != nil || !found {
		return unknown, err
	}
	s.names.Store(name, id)
	return id, nil
}

// resolve returns the ID of a collection's name and inserts the name if it is new.
// The name stays even if the write fails.
func (s *Store) resolve(ctx context.Context, o ss.Owner, w ss.Write) (int32, error) {
	id, err := s.lookup(ctx, w.Collection)
	if err != nil || id != unknown {
		return id, err
	}
	if _, err := s.db.QueryRow(ctx, sqlName, []any{o.UID, w.Collection, int64(w.MaxNames)}, &id); err != nil {
		return unknown, err
	}
	if id == 0 {
		return unknown, ss.ErrTooManyNames
	}
	s.names.Store(w.Collection, id)
	return id, nil
}

// moment converts a timestamp for the driver.
func moment(t ss.Timestamp) pgtype.Timestamp {
	return pgtype.Timestamp{Time: t.Time(), Valid: true}
}

// stamp converts a timestamp from the database; NULL means never.
func stamp(t pgtype.Timestamp) ss.Timestamp {
	if !t.Valid {
		return 0
	}
	return ss.Timestamp(t.Time.UnixMilli())
}
