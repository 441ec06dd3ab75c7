package sqlitedb

import (
	"context"
	"embed"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/migrate"
)

//go:embed migrations/*.sql
var migrations embed.FS

// ServerMigrations returns the migrations for the server's own tables.
func ServerMigrations() (migrate.Set, error) {
	return migrate.Load("server", migrations, "migrations")
}

// SecretHashes returns the hashes by setting that SetSecretHash stored, or nil before the first migration. Package
// secrets compares them.
func (db *DB) SecretHashes(ctx context.Context, service string) (hashes map[string]string, err error) {
	err = db.Read(ctx, "secrets.read", func(c *sqlite.Conn) error {
		_, found, err := QueryRow(c, `SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'secret_hashes'`,
			func(*sqlite.Stmt) struct{} { return struct{}{} })
		if err != nil || !found {
			return err
		}
		hashes = map[string]string{}
		return ForEach(c, `SELECT setting, hashed FROM secret_hashes WHERE service = ?`, func(s *sqlite.Stmt) error {
			hashes[s.ColumnText(0)] = s.ColumnText(1)
			return nil
		}, service)
	})
	return hashes, err
}

// SetSecretHash stores a setting's hash if the stored one is still old ("": none), and reports whether it did.
func (db *DB) SetSecretHash(ctx context.Context, service, setting, old, hash string) (changed bool, err error) {
	now := time.Now().UTC().Format(time.RFC3339)
	err = db.Write(ctx, "secrets.set", func(c *sqlite.Conn) error {
		var err error
		if old == "" {
			err = Exec(c, `INSERT INTO secret_hashes (service, setting, hashed, recorded_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`, service, setting, hash, now)
		} else {
			err = Exec(c, `UPDATE secret_hashes SET hashed = ?, recorded_at = ? WHERE service = ? AND setting = ? AND hashed = ?`, hash, now, service, setting, old)
		}
		changed = c.Changes() == 1
		return err
	})
	return changed && err == nil, err
}
