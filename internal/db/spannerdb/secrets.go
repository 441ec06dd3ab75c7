package spannerdb

import (
	"context"
	"embed"
	"time"

	"cloud.google.com/go/spanner"
	"google.golang.org/grpc/codes"

	"holdfast/internal/db/migrate"
	"holdfast/internal/fault"
)

//go:embed migrations/*.sql
var migrations embed.FS

// ServerMigrations are the tables that the server keeps beside those of a service.
func ServerMigrations() (migrate.Set, error) {
	return migrate.Load("server", migrations, "migrations")
}

var (
	readSecretHashes = Statement{"secrets.read", `SELECT setting, hashed FROM secret_hashes WHERE service = @service`}
	readSecretHash   = Statement{"secrets.read_one", `SELECT setting, hashed FROM secret_hashes WHERE service = @service AND setting = @setting`}
)

// SecretHashes returns the hashes of a service's secrets by setting; nil while the
// table is missing.
func (db *DB) SecretHashes(ctx context.Context, service string) (map[string]string, error) {
	hashes := map[string]string{}
	err := db.ForEach(ctx, readSecretHashes, Params{"service": service}, func(r *spanner.Row) error {
		var setting, hash string
		err := r.Columns(&setting, &hash)
		hashes[setting] = hash
		return err
	})
	if spanner.ErrCode(err) == codes.InvalidArgument && fault.Is(err, fault.Unavailable) {
		return nil, nil // there is no such table
	}
	return hashes, err
}

// SetSecretHash replaces the hash old of a service's secret, "" for none. It reports
// whether it did: another process may have been faster.
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
