//test:unraced SQLite takes twenty times as long under the race detector

package sqlite_test

import (
	"testing"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/testdb/opened"
	"holdfast/internal/tokenserver/sqlite"
	"holdfast/internal/tokenserver/storetest"
)

func TestMigrationsKeepData(t *testing.T) {
	t.Parallel()
	opened.SQLiteFromEachSchema(t, sqlite.Migrations, func(t *testing.T, db *sqlitedb.DB) {
		storetest.Migrated(t, sqlite.New(db))
	})
}
