package postgres_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/db/migrate"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/extstorage/postgres"
	"holdfast/internal/extstorage/storetest"
	"holdfast/internal/testdb"
)

// TestMigrationsKeepData goes from every schema, with data that was written
// through it, to the newest. Who adds a migration adds its script of the data,
// so that the next migration finds one.
func TestMigrationsKeepData(t *testing.T) {
	t.Parallel()
	set, err := postgres.Migrations()
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
			execute(t, url, string(script))
			// The harness applies the rest.
			storetest.Migrated(t, harness(t, url, nil))
		})
	}
}

// execute runs any number of statements.
func execute(t *testing.T, url, sql string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
