package sqlite_test

import (
	"fmt"
	"os"
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
// through it, to the newest. Who adds a migration adds its script of the data,
// so that the next migration finds one.
func TestMigrationsKeepData(t *testing.T) {
	t.Parallel()
	set, err := sqlite.Migrations()
	if err != nil {
		t.Fatal(err)
	}
	for k := 1; k <= len(set.Migrations); k++ {
		t.Run(fmt.Sprintf("%04d", k), func(t *testing.T) {
			t.Parallel()
			script, err := os.ReadFile(fmt.Sprintf("testdata/schema/%04d.sql", k))
			if err != nil {
				t.Fatal(err)
			}
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
				return sqlitex.ExecuteScript(c, string(script), nil)
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
}
