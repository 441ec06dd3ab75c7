package postgres_test

import (
	"testing"

	"holdfast/internal/db/migrate"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/extstorage/postgres"
	"holdfast/internal/extstorage/storetest"
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
		// The harness applies the rest.
		storetest.Migrated(t, harness(t, url, nil))
	})
}
