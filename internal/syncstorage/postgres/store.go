// Package postgres stores Firefox Sync data in PostgreSQL, on one server or distributed by Citus.
//
// A write is a call to a PL/pgSQL function, which locks the user and applies the rules of package syncstorage in a
// single round trip and transaction. A read is a single statement and snapshot. Users are keyed by Owner.UID, the
// distribution column on Citus, used by every statement except the sweep's search for work.
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

// Migrations returns the schema's history.
func Migrations() (migrate.Set, error) {
	return migrate.Load("syncstorage", migrations, "migrations")
}

// Store keeps records in PostgreSQL or Citus, distributed by user: statements with Key run on the user's node. Writes
// are function calls. It is safe for concurrent use.
type Store struct {
	db    *pgdb.DB
	set   func() (migrate.Set, error)
	names sync.Map // name (string) to ID (int32), which never change
	pages ss.Pages
}

var _ ss.Store = (*Store)(nil)

// New returns a store on a database with Migrations applied.
func New(db *pgdb.DB) *Store {
	return &Store{db: db.Distributed("user_collections"), set: sync.OnceValues(Migrations)}
}

// Ping implements syncstorage.Store.
func (s *Store) Ping(ctx context.Context) error {
	return migrate.Ready(ctx, s.set, s.db.Pending, "the sync database needs %d migrations: run holdfast migrate")
}

const unknown int32 = -1

// lookup returns unknown if nobody uses the name.
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

// resolve returns a collection's ID. A new name stays even if the write fails.
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

// moment returns a parameter that is never NULL.
func moment(t ss.Timestamp) pgtype.Timestamp {
	return pgtype.Timestamp{Time: t.Time(), Valid: true}
}

// stamp returns 0 for NULL.
func stamp(t pgtype.Timestamp) ss.Timestamp {
	if !t.Valid {
		return 0
	}
	return ss.Timestamp(t.Time.UnixMilli())
}
