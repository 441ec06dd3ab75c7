package sqlitedb

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/db/migrate"
)

const createLedger = `
CREATE TABLE IF NOT EXISTS schema_migrations (
	service    TEXT    NOT NULL,
	version    INTEGER NOT NULL,
	name       TEXT    NOT NULL,
	checksum   TEXT    NOT NULL,
	applied_at TEXT    NOT NULL,
	PRIMARY KEY (service, version)
) WITHOUT ROWID`

// Migrate applies the pending migrations in a single transaction and returns them. A process that waits for another's
// transaction finds nothing left to do.
func (db *DB) Migrate(ctx context.Context, set migrate.Set) ([]migrate.Migration, error) {
	var pending []migrate.Migration
	err := db.WriteAlone(ctx, "migrate", func(conn *sqlite.Conn) error {
		if err := sqlitex.Execute(conn, createLedger, nil); err != nil {
			return err
		}
		ledger, err := readLedger(conn, set.Service)
		if err != nil {
			return err
		}
		if pending, err = set.Pending(ledger); err != nil {
			return err
		}
		for _, m := range pending {
			if err := apply(conn, set.Service, m); err != nil {
				return fmt.Errorf("%s: migration %04d_%s: %w", set.Service, m.Version, m.Name, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return pending, nil
}

// apply runs a migration and records it.
func apply(conn *sqlite.Conn, service string, m migrate.Migration) error {
	if err := sqlitex.ExecuteScript(conn, m.SQL, nil); err != nil {
		return err
	}
	return sqlitex.Execute(conn,
		`INSERT INTO schema_migrations (service, version, name, checksum, applied_at) VALUES (?, ?, ?, ?, ?)`,
		&sqlitex.ExecOptions{Args: []any{service, m.Version, m.Name, m.Checksum, time.Now().UTC().Format(time.RFC3339)}})
}

// Pending returns the migrations that Migrate would apply. It changes nothing.
func (db *DB) Pending(ctx context.Context, set migrate.Set) (pending []migrate.Migration, err error) {
	err = db.Read(ctx, "pending migrations", func(conn *sqlite.Conn) error {
		ledger, err := readLedger(conn, set.Service)
		if err != nil {
			return err
		}
		pending, err = set.Pending(ledger)
		return err
	})
	return pending, err
}

// readLedger returns the service's applied migrations; nil if there is no ledger yet.
func readLedger(conn *sqlite.Conn, service string) ([]migrate.Applied, error) {
	columns := map[string]bool{}
	err := ForEach(conn, `SELECT name FROM pragma_table_info('schema_migrations')`, func(s *sqlite.Stmt) error {
		columns[s.ColumnText(0)] = true
		return nil
	})
	switch {
	case err != nil, len(columns) == 0:
		return nil, err
	case !columns["service"]:
		return nil, migrate.ErrDevelopment
	}
	var ledger []migrate.Applied
	err = sqlitex.Execute(conn, `SELECT version, name, checksum FROM schema_migrations WHERE service = ? ORDER BY version`,
		&sqlitex.ExecOptions{
			Args: []any{service},
			ResultFunc: func(s *sqlite.Stmt) error {
				ledger = append(ledger, migrate.Applied{Version: s.ColumnInt(0), Name: s.ColumnText(1), Checksum: s.ColumnText(2)})
				return nil
			},
		})
	return ledger, err
}
