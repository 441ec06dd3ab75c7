package postgres_test

import (
	"testing"

	migrations "holdfast/internal/db/migrate"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/testdb"
	"holdfast/internal/tokenserver/postgres"
	"holdfast/internal/tokenserver/storetest"
)

// TestMigrationsKeepData goes from every schema, with data that was written
// through it, to the newest.
func TestMigrationsKeepData(t *testing.T) {
	t.Parallel()
	set, err := postgres.Migrations()
	must(t, err)
	testdb.EachSchema(t, len(set.Migrations), func(t *testing.T, k int, script string) {
		url := schema(t)
		db := openDB(t, pgdb.Options{URL: url})
		_, err := db.Migrate(t.Context(), migrations.Set{Room: set.Room, Migrations: set.Migrations[:k]})
		must(t, err)
		testdb.Script(t, url, script)
		applied, err := db.Migrate(t.Context(), set)
		if err != nil || len(applied) != len(set.Migrations)-k {
			t.Fatalf("applied %d migrations: %v", len(applied), err)
		}
		storetest.Migrated(t, postgres.New(db))
	})
}
