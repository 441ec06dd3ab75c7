package sqlite_test

import (
	"path/filepath"
	"strings"
	"testing"

	zombiezen "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/db/migrate"
	"holdfast/internal/db/sqlitedb"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/sqlite"
	"holdfast/internal/extstorage/storetest"
	"holdfast/internal/outbox"
	outboxsqlite "holdfast/internal/outbox/sqlite"
	"holdfast/internal/testdb"
)

// TestMigrationsKeepData goes from every schema, with data that was written
// through it, to the newest.
func TestMigrationsKeepData(t *testing.T) {
	t.Parallel()
	set, err := sqlite.Migrations()
	if err != nil {
		t.Fatal(err)
	}
	testdb.EachSchema(t, len(set.Migrations), func(t *testing.T, k int, script string) {
		db, err := sqlitedb.Open(t.Context(), sqlitedb.Options{Path: filepath.Join(testdb.SQLite(t), "extstorage.db")})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		if err := sqlite.New(db).Ping(t.Context()); err == nil {
			t.Error("Ping finds nothing missing in a new file")
		}
		old := migrate.Set{Room: set.Room, Migrations: set.Migrations[:k]}
		if _, err := db.Migrate(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		err = db.Write(t.Context(), "the data", func(c *zombiezen.Conn) error {
			return sqlitex.ExecuteScript(c, script, nil)
		})
		if err != nil {
			t.Fatal(err)
		}
		applied, err := db.Migrate(t.Context(), set)
		if err != nil || len(applied) != len(set.Migrations)-k {
			t.Fatalf("applied %d migrations: %v", len(applied), err)
		}
		storetest.Migrated(t, harnessOn(db))
	})
}

// TestOutboxTable: the migration has the tables as package outbox reads them.
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
