package postgres_test

import (
	"testing"

	"holdfast/internal/buckets/postgres"
	"holdfast/internal/buckets/storetest"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

func TestMigrationsKeepData(t *testing.T) {
	t.Parallel()
	opened.PostgresFromEachSchema(t, testdb.PostgresDatabase, postgres.Migrations, func(t *testing.T, db *pgdb.DB) {
		storetest.Migrated(t, harnessOn(db))
	})
}

func TestMigrationsKeepDataOnCitus(t *testing.T) {
	t.Parallel()
	opened.PostgresFromEachSchema(t, testdb.CitusDatabase, postgres.Migrations, func(t *testing.T, db *pgdb.DB) {
		storetest.Migrated(t, harnessOn(db))
	})
}

// TestTwoMigrate checks that the second of two processes waits until the first finishes the migration.
func TestTwoMigrate(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	set, err := postgres.Migrations()
	if err != nil {
		t.Fatal(err)
	}
	dbs := [2]*pgdb.DB{opened.Postgres(t, pgdb.Options{URL: url}, nil), opened.Postgres(t, pgdb.Options{URL: url}, nil)}
	var applied [2]int
	for _, err := range testdb.Concurrently(2, func(i int) error {
		all, err := dbs[i].Migrate(t.Context(), set)
		applied[i] = len(all)
		return err
	}) {
		if err != nil {
			t.Error(err)
		}
	}
	if applied[0]+applied[1] != len(set.Migrations) {
		t.Errorf("they have applied %v migrations", applied)
	}
}
