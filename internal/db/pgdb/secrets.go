package pgdb

import (
	"context"
	"embed"

	"holdfast/internal/db/migrate"
)

//go:embed migrations/*.sql
var migrations embed.FS

// ServerMigrations returns the migrations for the server's own tables.
func ServerMigrations() (migrate.Set, error) {
	return migrate.Load("server", migrations, "migrations")
}

var (
	readSecretHashes = Statement{Name: "secrets.read", SQL: `SELECT setting, hashed FROM secret_hashes WHERE service = $1::text`}
	addSecretHash    = Statement{Name: "secrets.add", SQL: `
		INSERT INTO secret_hashes (service, setting, hashed) VALUES ($1::text, $2::text, $3::text) ON CONFLICT DO NOTHING`}
	replaceSecretHash = Statement{Name: "secrets.replace", SQL: `
		UPDATE secret_hashes SET hashed = $3::text, recorded_at = now() AT TIME ZONE 'UTC'
		WHERE service = $1::text AND setting = $2::text AND hashed = $4::text`}
)

// SecretHashes returns the hashes by setting that SetSecretHash stored, or nil before the first migration. Package
// secrets compares them.
func (db *DB) SecretHashes(ctx context.Context, service string) (hashes map[string]string, err error) {
	var setting, hash string
	err = db.ForEach(ctx, readSecretHashes, []any{service}, func() { hashes = map[string]string{} }, func() error {
		hashes[setting] = hash
		return nil
	}, &setting, &hash)
	if IsState(err, NoTable) {
		return nil, nil
	}
	return hashes, err
}

// SetSecretHash stores a setting's hash if the stored one is still old ("": none), and reports whether it did.
func (db *DB) SetSecretHash(ctx context.Context, service, setting, old, hash string) (changed bool, err error) {
	var n int64
	if old == "" {
		n, err = db.Exec(ctx, addSecretHash, service, setting, hash)
	} else {
		n, err = db.Exec(ctx, replaceSecretHash, service, setting, hash, old)
	}
	return n == 1, err
}
