package postgres_test

import (
	"testing"

	"holdfast/internal/db/migrate"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/syncstorage/postgres"
	"holdfast/internal/syncstorage/storetest"
	"holdfast/internal/testdb"
)

// TestMigrationsKeepData goes from every schema, with data that was written
// through it, to the newest.
func TestMigrationsKeepData(t *testing.T) {
	t.Parallel()
	set, err := postgres.Migrations()
	if err != nil {
		t.Fatal(err)
	}
	testdb.EachSchema(t, len(set.Migrations), func(t *testing.T, k int, script string) {
		url := testdb.PostgresDatabase(t)
		db, err := pgdb.Open(t.Context(), pgdb.Options{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(db.Close)
		old := migrate.Set{Room: set.Room, Migrations: set.Migrations[:k]}
		if _, err := db.Migrate(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		testdb.Script(t, url, script)
		applied, err := db.Migrate(t.Context(), set)
		if err != nil || len(applied) != len(set.Migrations)-k {
			t.Fatalf("applied %d migrations: %v", len(applied), err)
		}
		storetest.Migrated(t, postgres.New(db))
	})
}
