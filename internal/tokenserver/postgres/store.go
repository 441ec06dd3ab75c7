// Package postgres stores accounts and nodes in PostgreSQL.
//
// Nearly all sign-ins take a single statement. Others run a transaction that locks the account, applies the rules of
// package tokenserver, and writes. A new account also locks the nodes, so first sign-ins briefly wait for each other.
package postgres

import (
	"context"
	"embed"
	"sync"

	"holdfast/internal/db/migrate"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/tokenserver"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the schema's history.
func Migrations() (migrate.Set, error) {
	return migrate.Load("tokenserver", migrations, "migrations")
}

type Store struct {
	db  *pgdb.DB
	set func() (migrate.Set, error)
}

var _ tokenserver.Store = (*Store)(nil)

// New returns a store on a database with Migrations applied.
func New(db *pgdb.DB) *Store { return &Store{db: db, set: sync.OnceValues(Migrations)} }

// Ping checks the migrations each time, because a newer release may have changed the tables.
func (s *Store) Ping(ctx context.Context) error {
	return migrate.Ready(ctx, s.set, s.db.Pending, "the token database needs %d migrations: run holdfast migrate")
}

// locked runs fn in a transaction holding the account's lock. fn may run twice and must be idempotent.
func (s *Store) locked(ctx context.Context, name string, a tokenserver.Account, fn func(tx *pgdb.Tx) error) error {
	return s.db.Tx(ctx, name, func(tx *pgdb.Tx) error {
		// This is a separate statement, so that the following statements get new snapshots, which include the commit
		// of the previous lock owner.
		if _, err := tx.Exec(sqlLock, a.Email()); err != nil {
			return err
		}
		return fn(tx)
	})
}

// collect reads all rows. value decodes the last row read into the destinations row.
func collect[T any](
	ctx context.Context, db *pgdb.DB, s pgdb.Statement, args []any, value func() T, row ...any,
) (rows []T, err error) {
	err = db.ForEach(ctx, s, args, func() { rows = nil }, func() error {
		rows = append(rows, value())
		return nil
	}, row...)
	return rows, err
}

// collectTx is collect within a transaction.
func collectTx[T any](tx *pgdb.Tx, s pgdb.Statement, args []any, value func() T, row ...any) (rows []T, err error) {
	err = tx.ForEach(s, args, func() error {
		rows = append(rows, value())
		return nil
	}, row...)
	return rows, err
}
