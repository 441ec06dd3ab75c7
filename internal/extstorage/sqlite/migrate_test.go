package sqlite_test

import (
	"strings"
	"testing"

	"holdfast/internal/db/sqlitedb"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/sqlite"
	"holdfast/internal/extstorage/storetest"
	"holdfast/internal/outbox"
	outboxsqlite "holdfast/internal/outbox/sqlite"
	"holdfast/internal/testdb/opened"
)

// TestMigrationsKeepData migrates databases that were filled under each older
// schema to the newest.
func TestMigrationsKeepData(t *testing.T) {
	t.Parallel()
	opened.SQLiteFromEachSchema(t, sqlite.Migrations, func(t *testing.T, db *sqlitedb.DB) {
		storetest.Migrated(t, harnessOn(db))
	})
}

// TestOutboxTable checks that the migration has the tables of package outbox.
func TestOutboxTable(t *testing.T) {
	t.Parallel()
	set, err := sqlite.Migrations()
	if err != nil {
		t.Fatal(err)
	}
	ddl := outboxsqlite.New(outbox.Table{Name: ext.AuditTable, Owner: "tenant_id", Stream: "extension_install_id"}).DDL()
	if !strings.Contains(set.Migrations[0].SQL, ddl) {
		t.Errorf("the first migration does not have\n%s", ddl)
	}
}
