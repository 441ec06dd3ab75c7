//test:unraced the suite on PostgreSQL takes two minutes under the race detector

package postgres_test

import (
	"testing"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/testdb/opened"
	"holdfast/internal/tokenserver/postgres"
	"holdfast/internal/tokenserver/storetest"
)

func TestMigrationsKeepData(t *testing.T) {
	t.Parallel()
	opened.PostgresFromEachSchema(t, schema, postgres.Migrations, func(t *testing.T, db *pgdb.DB) {
		storetest.Migrated(t, postgres.New(db))
	})
}
