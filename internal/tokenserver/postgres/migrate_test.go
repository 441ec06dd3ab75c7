package postgres_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	migrations "holdfast/internal/db/migrate"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/tokenserver/postgres"
	"holdfast/internal/tokenserver/storetest"
)

// TestMigrationsKeepData goes from every schema, with data that was written
// through it, to the newest. Who adds a migration adds its script of the data,
// so that the next migration finds one.
func TestMigrationsKeepData(t *testing.T) {
	t.Parallel()
	set, err := postgres.Migrations()
	must(t, err)
	for k := 1; k <= len(set.Migrations); k++ {
		t.Run(fmt.Sprintf("%04d", k), func(t *testing.T) {
			t.Parallel()
			script, err := os.ReadFile(fmt.Sprintf("testdata/schema/%04d.sql", k))
			must(t, err)
			url := schema(t)
			db := openDB(t, pgdb.Options{URL: url})
			_, err = db.Migrate(t.Context(), migrations.Set{Room: set.Room, Migrations: set.Migrations[:k]})
			must(t, err)
			c, err := pgx.Connect(t.Context(), url)
			must(t, err)
			_, err = c.PgConn().Exec(t.Context(), string(script)).ReadAll()
			must(t, err)
			must(t, c.Close(t.Context()))
			applied, err := db.Migrate(t.Context(), set)
			if err != nil || len(applied) != len(set.Migrations)-k {
				t.Fatalf("applied %d migrations: %v", len(applied), err)
			}
			storetest.Migrated(t, postgres.New(db))
		})
	}
}
