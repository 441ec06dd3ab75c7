// Package postgres keeps the accounts and nodes of a tokenserver in
// PostgreSQL.
//
// A sign-in that changes nothing, which nearly all do not, is one statement.
// QueryRow that does is a transaction that locks the account first and then reads,
// decides by the rules of package tokenserver, and writes. A new account also
// locks the rows of the nodes, which makes first sign-ins wait for each other
// for the length of a few statements.
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

// Migrations are the schema changes of this backend.
func Migrations() (migrate.Set, error) {
	return migrate.Load("tokenserver", migrations, "migrations")
}

// Store implements tokenserver.Store.
type Store struct {
	db  *pgdb.DB
	set func() (migrate.Set, error)
}

var _ tokenserver.Store = (*Store)(nil)

// New returns a store on a database that Migrations have been applied to, or
// will be before the first use.
func New(db *pgdb.DB) *Store { return &Store{db: db, set: sync.OnceValues(Migrations)} }

// Ping implements tokenserver.Store. It reads the ledger each time: a newer
// release may change the tables of a server that runs.
func (s *Store) Ping(ctx context.Context) error {
	return migrate.Ready(ctx, s.set, s.db.Pending, "the token database needs %d migrations: run holdfast migrate")
}

// locked runs fn in a transaction in which no other step touches the account.
// fn may run more than once.
func (s *Store) locked(ctx context.Context, name string, a tokenserver.Account, fn func(tx *pgdb.Tx) error) error {
	return s.db.Tx(ctx, name, func(tx *pgdb.Tx) error {
		// What is read later sees what the one before us has committed: each
		// statement has a snapshot of its own.
		if _, err := tx.Exec(sqlLock, a.Email()); err != nil {
			return err
		}
		return fn(tx)
	})
}

// collect runs a statement and returns its rows. row is scanned into, anew for
// each row, and value made of it.
func collect[T any](
	ctx context.Context, db *pgdb.DB, s pgdb.Statement, args []any, value func() T, row ...any,
) (rows []T, err error) {
	err = db.ForEach(ctx, s, args, func() { rows = nil }, func() error {
		rows = append(rows, value())
		return nil
	}, row...)
	return rows, err
}

// collectTx is collect in a transaction.
func collectTx[T any](tx *pgdb.Tx, s pgdb.Statement, args []any, value func() T, row ...any) (rows []T, err error) {
	err = tx.ForEach(s, args, func() error {
		rows = append(rows, value())
		return nil
	}, row...)
	return rows, err
}
