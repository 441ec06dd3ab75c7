package pgdb_test

import (
	"testing"
	"time"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

func TestHung(t *testing.T) {
	t.Parallel()
	server := testdb.OwnPostgres(t, testdb.PostgresOptions{})
	db := opened.Postgres(t, pgdb.Options{URL: server.URL(), ConnectTimeout: 3 * time.Second}, nil)
	opened.Lines(t, db, `SELECT 'x'`)
	await := func(want bool) {
		t.Helper()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		ends := time.After(time.Minute)
		for db.Hung() != want {
			select {
			case <-tick.C:
			case <-ends:
				t.Fatalf("hung is %t", !want)
			}
		}
	}
	await(false)
	thaw := server.Freeze(t)
	await(true)
	thaw()
	await(false)
}
