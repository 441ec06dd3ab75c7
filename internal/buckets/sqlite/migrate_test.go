package sqlite_test

import (
	"testing"

	"holdfast/internal/buckets/sqlite"
	"holdfast/internal/buckets/storetest"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/testdb/opened"
)

func TestMigrationsKeepData(t *testing.T) {
	t.Parallel()
	opened.SQLiteFromEachSchema(t, sqlite.Migrations, func(t *testing.T, db *sqlitedb.DB) {
		storetest.Migrated(t, harnessOn(db))
	})
}
