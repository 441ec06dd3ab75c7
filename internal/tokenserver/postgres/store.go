// Package postgres stores the accounts and nodes of a tokenserver in PostgreSQL.
//
// Nearly all sign-ins change nothing and are one statement. The others are a transaction
// that locks the account first and then reads, decides by the rules of package
// tokenserver, and writes. A new account also locks the rows of the nodes, so first
// sign-ins wait for each other for a few statements.
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

// Migrations returns the schema changes of this backend.
func Migrations() (migrate.Set, error) {
	return migrate.Load("tokenserver", migrations, "migrations")
}

// Store implements tokenserver.Store.
type Store struct {
	db  *pgdb.DB
	set func() (migrate.Set, error)
}

var _ tokenserver.Store = (*Store)(nil)

// New returns a store on a database. Migrations must be applied before the first use.
func New(db *pgdb.DB) *Store { return &Store{db: db, set: sync.OnceValues(Migrations)} }

// Ping implements tokenserver.Store. It checks the migrations each time, because a newer
// release may change the tables while this server runs.
func (s *Store) Ping(ctx context.Context) error {
	return migrate.Ready(ctx, s.set, s.db.Pending, "the token database needs %d migrations: run holdfast migrate")
}

// locked runs fn in a transaction that has the lock of the account. fn may run more than
// once and must be idempotent.
func (s *Store) locked(ctx context.Context, name string, a tokenserver.Account, fn func(tx *pgdb.Tx) error) error {
	return s.db.Tx(ctx, name, func(tx *pgdb.Tx) error {
		// The lock is its own statement: the following ones get new snapshots, which see
		// the commit of the previous owner.
		if _, err := tx.Exec(sqlLock, a.Email()); err != nil {
			return err
		}
		return fn(tx)
	})
}

// collect runs a statement and returns its rows. It scans each row into the pointers in
// row and then calls value.
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
