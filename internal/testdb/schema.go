package testdb

import (
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
)

// EachSchema runs fn, in parallel, for each of the n versions that a schema has
// had, with the script of data that was written through the k-th:
// testdata/schema/NNNN.sql. Who adds a migration adds its script, so that the
// next migration finds one.
func EachSchema(t *testing.T, n int, fn func(t *testing.T, k int, script string)) {
	t.Helper()
	for k := 1; k <= n; k++ {
		t.Run(fmt.Sprintf("%04d", k), func(t *testing.T) {
			t.Parallel()
			script, err := os.ReadFile(fmt.Sprintf("testdata/schema/%04d.sql", k))
			if err != nil {
				t.Fatal(err)
			}
			fn(t, k, string(script))
		})
	}
}

// Script runs any number of statements on a PostgreSQL database.
func Script(t testing.TB, url, sql string) {
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
