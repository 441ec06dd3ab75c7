package pgdb_test

import (
	"strings"
	"testing"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/testdb"
)

// TestVerify: every row is read, and where amcheck is installed an index that does not have a row is
// damage. The index is made wrong by a function that changes its results.
func TestVerify(t *testing.T) {
	t.Parallel()
	db, err := pgdb.Open(t.Context(), pgdb.Options{URL: testdb.PostgresDatabase(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	exec := func(sql string) {
		t.Helper()
		if _, err := db.Exec(t.Context(), pgdb.Statement{Name: "test", SQL: sql}); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	verify := func(says string) (problems []string) {
		t.Helper()
		problems, how, err := db.Verify(t.Context())
		if err != nil || !strings.Contains(how, says) {
			t.Errorf("%q, %v; want %q", how, err, says)
		}
		return problems
	}
	exec(`CREATE TABLE "A b" (k int PRIMARY KEY, v text)`)
	exec(`INSERT INTO "A b" SELECT i, repeat('x', i) FROM generate_series(1, 1000) AS i`)
	exec(`CREATE FUNCTION f(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1; END'`)
	exec(`CREATE INDEX wrong ON "A b" (f(k))`)
	if problems := verify("to check indexes too: CREATE EXTENSION amcheck"); len(problems) > 0 {
		t.Errorf("without amcheck: %q", problems)
	}
	exec(`CREATE EXTENSION amcheck`)
	if problems := verify("amcheck has checked tables and indexes"); len(problems) > 0 {
		t.Errorf("intact: %q", problems)
	}
	exec(`CREATE OR REPLACE FUNCTION f(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN -$1; END'`)
	if problems := verify("amcheck"); len(problems) != 1 || !strings.HasPrefix(problems[0], "wrong: ") {
		t.Errorf("a wrong index: %q", problems)
	}
}
