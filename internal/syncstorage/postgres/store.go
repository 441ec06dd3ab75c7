// Package postgres keeps Firefox Sync storage in PostgreSQL, on one server or
// distributed over many by Citus.
//
// A write is one call of a PL/pgSQL function of the migrations, which locks
// the user, decides by the rules of package syncstorage, restated there, and
// writes: one round trip, one transaction. A read is one statement, and so one
// snapshot. Users are keyed by Owner.UID, which is the distribution column on
// Citus and stands in every statement but those that find what the sweep has
// to do.
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

// Migrations are the schema changes of this backend.
func Migrations() (migrate.Set, error) {
	return migrate.Load("syncstorage", migrations, "migrations")
}

// Store implements syncstorage.Store.
type Store struct {
	db    *pgdb.DB
	set   func() (migrate.Set, error)
	names sync.Map // collection name (string) to id (int32); ids never change
	pages ss.Pages
}

var _ ss.Store = (*Store)(nil)

// New returns a store on a database that Migrations have been applied to, or
// will be before the first use.
func New(db *pgdb.DB) *Store { return &Store{db: db, set: sync.OnceValues(Migrations)} }

// Ping implements syncstorage.Store. It reads the ledger each time: a newer
// release may change the tables of a server that runs.
func (s *Store) Ping(ctx context.Context) error {
	return migrate.Ready(ctx, s.set, s.db.Pending, "the sync database needs %d migrations: run holdfast migrate")
}

// unknown is the id of a collection whose name the server does not know; no
// row has it.
const unknown int32 = -1

// lookup is the id of a collection's name, or unknown.
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

// resolve is the id of a collection's name, which is made when the server does
// not know it. That stays, whatever becomes of the write.
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

// moment is a timestamp as the driver sends it.
func moment(t ss.Timestamp) pgtype.Timestamp {
	return pgtype.Timestamp{Time: t.Time(), Valid: true}
}

// stamp is a moment of the database, which is NULL for "never".
func stamp(t pgtype.Timestamp) ss.Timestamp {
	if !t.Valid {
		return 0
	}
	return ss.Timestamp(t.Time.UnixMilli())
}
