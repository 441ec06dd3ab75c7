package postgres_test

import (
	"testing"

	"holdfast/internal/buckets/postgres"
	"holdfast/internal/buckets/storetest"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// TestMigrationsKeepData migrates databases that were filled under each schema to the
// newest.
func TestMigrationsKeepData(t *testing.T) {
	t.Parallel()
	opened.PostgresFromEachSchema(t, testdb.PostgresDatabase, postgres.Migrations, func(t *testing.T, db *pgdb.DB) {
		storetest.Migrated(t, harnessOn(db))
	})
}

// TestMigrationsKeepDataOnCitus does the same with distributed tables.
func TestMigrationsKeepDataOnCitus(t *testing.T) {
	t.Parallel()
	opened.PostgresFromEachSchema(t, testdb.CitusDatabase, postgres.Migrations, func(t *testing.T, db *pgdb.DB) {
		storetest.Migrated(t, harnessOn(db))
	})
}
