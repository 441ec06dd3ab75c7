package postgres_test

import (
	"testing"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/extstorage/postgres"
	"holdfast/internal/extstorage/storetest"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

func TestMigrationsKeepData(t *testing.T) {
	t.Parallel()
	opened.PostgresFromEachSchema(t, testdb.PostgresDatabase, postgres.Migrations, func(t *testing.T, db *pgdb.DB) {
		storetest.Migrated(t, harnessOn(db))
	})
}
