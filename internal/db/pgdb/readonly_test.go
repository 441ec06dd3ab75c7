package pgdb_test

import (
	"testing"
	"time"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/rows"
	"holdfast/internal/testdb"
)

// TestTriggersWithoutJIT checks that PostgreSQL does not compile trigger queries if the firing statement disabled all
// scans.
func TestTriggersWithoutJIT(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	testdb.Script(t, url, `CREATE TABLE things (id BIGINT PRIMARY KEY)`)
	db := open(t, pgdb.Options{URL: url})
	set, err := pgdb.ServerMigrations()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Migrate(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	groups := []rows.Group{{Owner: 1, Tables: []*rows.Table{{Name: "things", Key: 1, Columns: rows.Columns(`id integer`)}}}}
	d := db.Rows()
	if err := d.Log(t.Context(), "test", groups); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(t.Context(), "test", "a test", time.Minute, groups); err != nil {
		t.Fatal(err)
	}
	var functions, without int
	if _, err := db.QueryRow(t.Context(), pgdb.Statement{Name: "test", SQL: `
		SELECT count(*), count(*) FILTER (WHERE proconfig @> '{jit=off}') FROM pg_trigger JOIN pg_proc p ON p.oid = tgfoid
		WHERE tgrelid = 'things'::regclass`}, nil, &functions, &without); err != nil {
		t.Fatal(err)
	}
	if functions < 2 || without != functions {
		t.Errorf("of %d functions of triggers, %d have jit = off; want all", functions, without)
	}
}
