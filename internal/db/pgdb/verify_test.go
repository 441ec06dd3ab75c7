package pgdb_test

import (
	"regexp"
	"strings"
	"testing"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// TestVerify checks that every row is read and, if amcheck is installed, that an index without a row is reported. A
// function that changes its results damages the index.
func TestVerify(t *testing.T) {
	t.Parallel()
	exec, verify := verified(t, testdb.PostgresDatabase(t))
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

// TestVerifyShards checks that amcheck runs for shards on their workers, and that Verify reports unchecked shards.
func TestVerifyShards(t *testing.T) {
	t.Parallel()
	exec, verify := verified(t, testdb.CitusDatabase(t))
	exec(`CREATE TABLE spread (k int PRIMARY KEY, v text)`)
	exec(`CREATE TABLE same (k int PRIMARY KEY)`)
	exec(`SELECT create_distributed_table('spread', 'k')`)
	exec(`SELECT create_reference_table('same')`)
	exec(`INSERT INTO spread SELECT i, repeat('x', i) FROM generate_series(1, 1000) AS i`)
	exec(`INSERT INTO same SELECT i FROM generate_series(1, 1000) AS i`)
	exec(`CREATE FUNCTION f(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1; END'`)
	exec(`CREATE INDEX wrong ON spread (f(k))`)
	exec(`CREATE EXTENSION amcheck`)
	if problems := verify("amcheck has checked tables and indexes on every node"); len(problems) > 0 {
		t.Errorf("intact: %q", problems)
	}
	onWorkers := func(sql string) {
		t.Helper()
		exec(`DO $do$ BEGIN ASSERT (SELECT bool_and(success) FROM run_command_on_workers($each$DO $x$ BEGIN SET LOCAL citus.enable_ddl_propagation = off; ` + sql + `; END $x$$each$)); END $do$`)
	}
	onWorkers(`CREATE OR REPLACE FUNCTION f(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN -$1; END'`)
	problems := verify("amcheck has checked tables and indexes on every node")
	if len(problems) == 0 {
		t.Error("wrong indexes on the workers were not found")
	}
	for _, p := range problems {
		if !regexp.MustCompile(`^\S+:\d+: wrong_\d+: \S`).MatchString(p) {
			t.Errorf("a wrong index: %q", p)
		}
	}
	onWorkers(`DROP EXTENSION amcheck`)
	if problems := verify("CREATE EXTENSION amcheck"); len(problems) > 0 {
		t.Errorf("without amcheck on the workers: %q", problems)
	}
}

func verified(t *testing.T, url string) (exec func(sql string), verify func(says string) []string) {
	t.Helper()
	db := opened.Postgres(t, pgdb.Options{URL: url}, nil)
	exec = func(sql string) {
		t.Helper()
		if _, err := db.Exec(t.Context(), pgdb.Statement{Name: "test", SQL: sql}); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	return exec, func(says string) (problems []string) {
		t.Helper()
		problems, how, err := db.Verify(t.Context())
		if err != nil || !strings.Contains(how, says) {
			t.Errorf("%q, %v; want %q", how, err, says)
		}
		return problems
	}
}
