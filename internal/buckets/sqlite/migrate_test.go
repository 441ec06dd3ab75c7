package sqlite_test

import (
	"testing"

	"holdfast/internal/buckets/sqlite"
	"holdfast/internal/buckets/storetest"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/testdb/opened"
)

// TestMigrationsKeepData migrates databases filled under each older schema.
func TestMigrationsKeepData(t *testing.T) {
	t.Parallel()
	opened.SQLiteFromEachSchema(t, sqlite.Migrations, func(t *testing.T, db *sqlitedb.DB) {
		storetest.Migrated(t, harnessOn(db))
	})
}
