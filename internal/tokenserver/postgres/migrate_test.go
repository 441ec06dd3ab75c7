package postgres_test

import (
	"testing"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/testdb/opened"
	"holdfast/internal/tokenserver/postgres"
	"holdfast/internal/tokenserver/storetest"
)

// TestMigrationsKeepData goes from every schema, with data that was written
// through it, to the newest.
func TestMigrationsKeepData(t *testing.T) {
	t.Parallel()
	opened.PostgresFromEachSchema(t, schema, postgres.Migrations, func(t *testing.T, db *pgdb.DB) {
		storetest.Migrated(t, postgres.New(db))
	})
}
