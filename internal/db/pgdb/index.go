package pgdb

import (
	"context"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
)

// indexLock is the advisory lock for creating indexes. No statement may wait for it: CREATE INDEX CONCURRENTLY would
// wait for that statement.
const indexLock = migrationLock + 1

var (
	lockIndex  = Statement{Name: "index.lock", SQL: `SELECT pg_try_advisory_xact_lock($1::bigint)`}
	indexState = Statement{Name: "index.state", SQL: `
		SELECT indisvalid AND indisready FROM pg_index WHERE indexrelid = to_regclass($1::text)`}
	// holdStill keeps the server from ending the transaction, which idles while the index is built. It also drops the
	// last query's snapshot: CREATE INDEX CONCURRENTLY waits for all snapshots.
	holdStill = Statement{Name: "index.hold", SQL: `SET LOCAL idle_in_transaction_session_timeout = 0`}
)

// EnsureIndex creates an index without blocking writes, unless it exists, and reports whether it did. An index that
// an earlier attempt left invalid is replaced. It waits while another process creates an index, and may take hours on
// a large table. create is CREATE INDEX CONCURRENTLY without IF NOT EXISTS, which on Citus marks an existing index
// invalid.
func (db *DB) EnsureIndex(ctx context.Context, name, create string) (made bool, err error) {
	patient := db.Patient(longestMigration)
	for {
		made, busy, err := patient.ensureIndex(ctx, name, create)
		if err != nil || !busy {
			return made, err
		}
		if !clock.Sleep(ctx, lockPause) {
			return false, errcode.Wrap(errcode.Unavailable, "canceled while another process creates the index", context.Cause(ctx))
		}
	}
}

// ensureIndex creates the index if nobody else holds the lock; busy means that somebody does.
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
			if _, err := db.Exec(ctx, Statement{Name: "index.drop", SQL: `DROP INDEX CONCURRENTLY ` + name}); err != nil {
				return err
			}
		}
		_, err = db.Exec(ctx, Statement{Name: "index.create", SQL: create})
		made = err == nil
		return err
	})
	return made && err == nil, busy, err
}
