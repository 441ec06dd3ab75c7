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

func TestMigrationsKeepData(t *testing.T) {
	t.Parallel()
	opened.SQLiteFromEachSchema(t, sqlite.Migrations, func(t *testing.T, db *sqlitedb.DB) {
		storetest.Migrated(t, harnessOn(db))
	})
}

func TestOutboxTable(t *testing.T) {
	t.Parallel()
	set, err := sqlite.Migrations()
	if err != nil {
		t.Fatal(err)
	}
	ddl := outboxsqlite.New(outbox.Table{Name: ext.AuditTable, Owner: "tenant_id", Stream: "extension_install_id"}).DDL()
	tables, index, _ := strings.Cut(ddl, "\n-- Keeps")
	for i, want := range map[int]string{0: tables, 2: index} {
		if want == "" || !strings.Contains(set.Migrations[i].SQL, want) {
			t.Errorf("migration %d does not have\n%s", i+1, want)
		}
	}
}
