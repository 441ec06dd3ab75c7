package spannerdb

import (
	"context"
	"embed"
	"time"

	"cloud.google.com/go/spanner"
	"google.golang.org/grpc/codes"

	"holdfast/internal/db/migrate"
	"holdfast/internal/errcode"
)

//go:embed migrations/*.sql
var migrations embed.FS

// ServerMigrations returns the migrations for the server's own tables.
func ServerMigrations() (migrate.Set, error) {
	return migrate.Load("server", migrations, "migrations")
}

var (
	readSecretHashes = Statement{"secrets.read", `SELECT setting, hashed FROM secret_hashes WHERE service = @service`}
	readSecretHash   = Statement{"secrets.read_one", `SELECT setting, hashed FROM secret_hashes WHERE service = @service AND setting = @setting`}
)

// SecretHashes returns the hashes by setting that SetSecretHash stored, or nil before the first migration. Package
// secrets compares them.
func (db *DB) SecretHashes(ctx context.Context, service string) (map[string]string, error) {
	hashes := map[string]string{}
	err := db.ForEach(ctx, readSecretHashes, Params{"service": service}, func(r *spanner.Row) error {
		var setting, hash string
		err := r.Columns(&setting, &hash)
		hashes[setting] = hash
		return err
	})
	if spanner.ErrCode(err) == codes.InvalidArgument && errcode.Is(err, errcode.Unavailable) {
		return nil, nil
	}
	return hashes, err
}

// SetSecretHash stores a setting's hash if the stored one is still old ("": none), and reports whether it did.
func (db *DB) SetSecretHash(ctx context.Context, service, setting, old, hash string) (changed bool, err error) {
	err = db.Write(ctx, "secrets.set", func(tx *Tx) error {
		var have, name string
		if err := tx.ForEach(readSecretHash, Params{"service": service, "setting": setting}, func(r *spanner.Row) error {
			return r.Columns(&name, &have)
		}); err != nil {
			return err
		}
		if changed = have == old; !changed {
			return nil
		}
		return tx.Buffer(spanner.InsertOrUpdate("secret_hashes",
			[]string{"service", "setting", "hashed", "recorded_at"}, []any{service, setting, hash, time.Now()}))
	})
	return changed && err == nil, err
}
