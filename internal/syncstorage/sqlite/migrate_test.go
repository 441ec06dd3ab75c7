package sqlite_test

import (
	"path/filepath"
	"testing"

	zombiezen "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/db/migrate"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/syncstorage/sqlite"
	"holdfast/internal/syncstorage/storetest"
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
		db, err := sqlitedb.Open(t.Context(), sqlitedb.Options{Path: filepath.Join(testdb.SQLite(t), "syncstorage.db")})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
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
		storetest.Migrated(t, sqlite.New(db))
	})
}
