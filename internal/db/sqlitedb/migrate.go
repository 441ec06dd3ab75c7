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
	room       TEXT    NOT NULL,
	version    INTEGER NOT NULL,
	name       TEXT    NOT NULL,
	checksum   TEXT    NOT NULL,
	applied_at TEXT    NOT NULL,
	PRIMARY KEY (room, version)
) WITHOUT ROWID`

// Migrate applies what the file still needs of the room's changes, all in one
// transaction, and returns what it applied. Two processes at once are safe:
// the write lock makes the second find nothing to do.
func (db *DB) Migrate(ctx context.Context, set migrate.Set) ([]migrate.Migration, error) {
	var pending []migrate.Migration
	err := db.WriteAlone(ctx, "migrate", func(conn *sqlite.Conn) error {
		if err := sqlitex.Execute(conn, createLedger, nil); err != nil {
			return err
		}
		ledger, err := readLedger(conn, set.Room)
		if err != nil {
			return err
		}
		if pending, err = set.Pending(ledger); err != nil {
			return err
		}
		for _, m := range pending {
			if err := apply(conn, set.Room, m); err != nil {
				return fmt.Errorf("%s: migration %04d_%s: %w", set.Room, m.Version, m.Name, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return pending, nil
}

func apply(conn *sqlite.Conn, room string, m migrate.Migration) error {
	if err := sqlitex.ExecuteScript(conn, m.SQL, nil); err != nil {
		return err
	}
	return sqlitex.Execute(conn,
		`INSERT INTO schema_migrations (room, version, name, checksum, applied_at) VALUES (?, ?, ?, ?, ?)`,
		&sqlitex.ExecOptions{Args: []any{room, m.Version, m.Name, m.Checksum, time.Now().UTC().Format(time.RFC3339)}})
}

// Pending says which of the room's changes the file does not have yet.
func (db *DB) Pending(ctx context.Context, set migrate.Set) (pending []migrate.Migration, err error) {
	err = db.Read(ctx, "pending migrations", func(conn *sqlite.Conn) error {
		ledger, err := readLedger(conn, set.Room)
		if err != nil {
			return err
		}
		pending, err = set.Pending(ledger)
		return err
	})
	return pending, err
}

func readLedger(conn *sqlite.Conn, room string) ([]migrate.Applied, error) {
	exists := false
	err := sqlitex.Execute(conn, `SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'schema_migrations'`,
		&sqlitex.ExecOptions{ResultFunc: func(*sqlite.Stmt) error { exists = true; return nil }})
	if err != nil || !exists {
		return nil, err
	}
	var ledger []migrate.Applied
	err = sqlitex.Execute(conn, `SELECT version, name, checksum FROM schema_migrations WHERE room = ? ORDER BY version`,
		&sqlitex.ExecOptions{
			Args: []any{room},
			ResultFunc: func(s *sqlite.Stmt) error {
				ledger = append(ledger, migrate.Applied{Version: s.ColumnInt(0), Name: s.ColumnText(1), Checksum: s.ColumnText(2)})
				return nil
			},
		})
	return ledger, err
}
