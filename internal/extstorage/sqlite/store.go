// Package sqlite keeps extension storage in one SQLite file.
//
// A write is one step of the file's group-commit writer, which is the lock that
// the room's rules need: the step reads what is there, asks the rules of package
// extstorage, and writes. A read is one snapshot.
package sqlite

import (
	"context"
	"embed"
	"sync"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/clock"
	"holdfast/internal/db/migrate"
	"holdfast/internal/db/sqlitedb"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/fault"
	"holdfast/internal/outbox"
	outboxsqlite "holdfast/internal/outbox/sqlite"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations are the schema changes of this backend.
func Migrations() (migrate.Set, error) {
	return migrate.Load("extstorage", migrations, "migrations")
}

// Store implements extstorage.Store, extstorage.Registry and
// extstorage.Installs.
type Store struct {
	db    *sqlitedb.DB
	set   func() (migrate.Set, error)
	audit *outboxsqlite.Outbox
}

var (
	_ ext.Store    = (*Store)(nil)
	_ ext.Registry = (*Store)(nil)
	_ ext.Installs = (*Store)(nil)
)

// New returns a store on a file that Migrations have been applied to, or will
// be before the first use.
func New(db *sqlitedb.DB) *Store {
	return &Store{db: db, set: sync.OnceValues(Migrations), audit: newOutbox()}
}

func newOutbox() *outboxsqlite.Outbox {
	return outboxsqlite.New(outbox.Table{Name: ext.AuditTable, Owner: "tenant_id", Stream: "extension_install_id", Type: "uuid"})
}

// Outbox is the table of the audit's events, as a relay needs it.
func (s *Store) Outbox(now clock.Clock) outbox.Box { return s.audit.Open(s.db, now) }

// Ping implements extstorage.Store. It reads the ledger each time: a newer
// release may change the tables of a server that runs.
func (s *Store) Ping(ctx context.Context) error {
	return migrate.Ready(ctx, s.set, s.db.Pending, "the database of extension storage needs %d migrations")
}

// errStopped ends a statement whose reader wants no more rows.
var errStopped = fault.New(fault.Internal, "the reader stopped")

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

// bind prepares a statement, which the connection keeps, with its arguments. A
// moment that is 0, and an empty optional text, are NULL.
func bind(c *sqlite.Conn, sql string, args ...any) (*sqlite.Stmt, error) {
	stmt, err := c.Prepare(sql)
	if err != nil {
		return nil, err
	}
	for i, arg := range args {
		i++
		switch v := arg.(type) {
		case int:
			stmt.BindInt64(i, int64(v))
		case int64:
			stmt.BindInt64(i, v)
		case bool:
			stmt.BindBool(i, v)
		case ext.Revision:
			stmt.BindInt64(i, int64(v))
		case ext.Seq:
			stmt.BindInt64(i, int64(v))
		case ext.SchemaVersion:
			stmt.BindInt64(i, int64(v))
		case ext.Moment:
			if v == 0 {
				stmt.BindNull(i)
			} else {
				stmt.BindInt64(i, int64(v))
			}
		case string:
			stmt.BindText(i, v)
		case optional:
			if v == "" {
				stmt.BindNull(i)
			} else {
				stmt.BindText(i, string(v))
			}
		case ext.TenantID:
			stmt.BindText(i, string(v))
		case ext.InstallID:
			stmt.BindText(i, string(v))
		case ext.Namespace:
			stmt.BindText(i, string(v))
		case ext.Key:
			stmt.BindText(i, string(v))
		case ext.Value:
			stmt.BindText(i, string(v))
		case ext.ChangeOp:
			stmt.BindText(i, string(v))
		case ext.SchemaStatus:
			stmt.BindText(i, string(v))
		case []byte:
			stmt.BindBytes(i, v)
		case greatest:
			stmt.BindZeroBlob(i, 0)
		default:
			panic("sqlite: no binding for the argument's type")
		}
	}
	return stmt, nil
}

// optional is text that is stored as NULL when it is empty.
type optional string

// greatest is greater than any text: a blob is.
type greatest struct{}
