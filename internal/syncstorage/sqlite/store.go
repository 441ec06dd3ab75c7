// Package sqlite keeps Firefox Sync storage in one SQLite file.
//
// A write is one step of the file's group-commit writer, which is the lock
// that the room's rules need: the step reads what is there, asks the rules of
// package syncstorage, and writes. A read is one snapshot.
package sqlite

import (
	"context"
	"embed"
	"sync"

	"zombiezen.com/go/sqlite"

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

// one runs a statement that returns one row at most.
func one[T any](c *sqlite.Conn, sql string, scan func(*sqlite.Stmt) T, args ...any) (v T, found bool, err error) {
	stmt, err := bind(c, sql, args...)
	if err != nil {
		return v, false, err
	}
	return sqlitedb.One(stmt, scan)
}

// exec runs a statement that returns no rows.
func exec(c *sqlite.Conn, sql string, args ...any) error {
	stmt, err := bind(c, sql, args...)
	if err != nil {
		return err
	}
	return sqlitedb.Exec(stmt)
}

// each runs a statement and hands every row to fn; an error of fn ends it.
func each(c *sqlite.Conn, sql string, fn func(*sqlite.Stmt) error, args ...any) error {
	stmt, err := bind(c, sql, args...)
	if err != nil {
		return err
	}
	return sqlitedb.Each(stmt, fn)
}

// bind prepares a statement, which the connection keeps, with its arguments.
func bind(c *sqlite.Conn, sql string, args ...any) (*sqlite.Stmt, error) {
	stmt, err := c.Prepare(sql)
	if err != nil {
		return nil, err
	}
	for i, arg := range args {
		switch v := arg.(type) {
		case int:
			stmt.BindInt64(i+1, int64(v))
		case int64:
			stmt.BindInt64(i+1, v)
		case syncstorage.Timestamp:
			stmt.BindInt64(i+1, int64(v))
		case string:
			stmt.BindText(i+1, v)
		case syncstorage.BatchID:
			stmt.BindText(i+1, string(v))
		case []byte:
			bindBlob(stmt, i+1, v)
		case syncstorage.Optional[int64]:
			if v.Set {
				stmt.BindInt64(i+1, v.Value)
			} else {
				stmt.BindNull(i + 1)
			}
		case syncstorage.Optional[[]byte]:
			if v.Set {
				bindBlob(stmt, i+1, v.Value)
			} else {
				stmt.BindNull(i + 1)
			}
		case expiry:
			if v == 0 {
				stmt.BindNull(i + 1)
			} else {
				stmt.BindInt64(i+1, int64(v))
			}
		default:
			panic("sqlite: no binding for the argument's type")
		}
	}
	return stmt, nil
}

// bindBlob binds an empty payload as an empty blob: a nil slice would be NULL.
func bindBlob(stmt *sqlite.Stmt, i int, b []byte) {
	if len(b) == 0 {
		stmt.BindZeroBlob(i, 0)
		return
	}
	stmt.BindBytes(i, b)
}

// expiry is a moment that is stored as NULL when it never comes.
type expiry syncstorage.Timestamp
