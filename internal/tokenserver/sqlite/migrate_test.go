package sqlite_test

import (
	"testing"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/testdb/opened"
	"holdfast/internal/tokenserver/sqlite"
	"holdfast/internal/tokenserver/storetest"
)

// TestMigrationsKeepData goes from every schema, with data that was written
// through it, to the newest.
func TestMigrationsKeepData(t *testing.T) {
	t.Parallel()
	opened.SQLiteFromEachSchema(t, sqlite.Migrations, func(t *testing.T, db *sqlitedb.DB) {
		storetest.Migrated(t, sqlite.New(db))
	})
}
