package pgdb

import (
	"context"

	"holdfast/internal/clock"
	"holdfast/internal/fault"
)

// indexLock is the key of the advisory lock under which indexes are made. Nobody
// waits for it in a statement, as for that of the migrations: whoever makes the
// index would wait for the statement.
const indexLock = migrationLock + 1

var (
	lockIndex  = Statement{"index.lock", `SELECT pg_try_advisory_xact_lock($1::bigint)`}
	indexState = Statement{"index.state", `
		SELECT indisvalid AND indisready FROM pg_index WHERE indexrelid = to_regclass($1::text)`}
	// A transaction keeps the snapshot of its last query until its next statement,
	// and whoever makes an index waits for all snapshots.
	holdStill = Statement{"index.hold", `SET LOCAL idle_in_transaction_session_timeout = 0`}
)

// EnsureIndex makes an index while its table is written to, unless it is there,
// and reports whether it has. What is left of an attempt that failed is removed
// first. create is CREATE INDEX CONCURRENTLY without IF NOT EXISTS, which on
// Citus declares an index invalid that is there. It takes two connections; a
// statement_timeout of the role bounds it.
func (db *DB) EnsureIndex(ctx context.Context, name, create string) (made bool, err error) {
	patient := &DB{pool: db.pool, opts: db.opts}
	patient.opts.StatementTimeout = longestMigration
	for {
		made, busy, err := patient.ensureIndex(ctx, name, create)
		if err != nil || !busy {
			return made, err
		}
		if !clock.Rest(ctx, lockPause) {
			return false, fault.Wrap(fault.Unavailable, "the caller has gone", context.Cause(ctx))
		}
	}
}

// ensureIndex is EnsureIndex, unless another is busy with it.
func (db *DB) ensureIndex(ctx context.Context, name, create string) (made, busy bool, err error) {
	err = db.Tx(ctx, "index", func(tx *Tx) error {
		var free, valid bool
		if _, err := tx.QueryRow(lockIndex, []any{int64(indexLock)}, &free); err != nil || !free {
			busy = !free
			return err
		}
		found, err := tx.QueryRow(indexState, []any{name}, &valid)
		if err != nil || valid {
			return err
		}
		if _, err := tx.Exec(holdStill); err != nil {
			return err
		}
		if found {
			if _, err := db.Exec(ctx, Statement{"index.drop", `DROP INDEX CONCURRENTLY ` + name}); err != nil {
				return err
			}
		}
		_, err = db.Exec(ctx, Statement{"index.create", create})
		made = err == nil
		return err
	})
	return made && err == nil, busy, err
}
