package postgres

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/db/pgdb"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/testdb"
)

// TestDistribution: on Citus a user's rows are on one shard, and each
// statement of a request is one task there: a write is sent to the user's node
// as the call that it is.
func TestDistribution(t *testing.T) {
	t.Parallel()
	db, err := pgdb.Open(t.Context(), pgdb.Options{URL: testdb.CitusDatabase(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	set, err := Migrations()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Migrate(t.Context(), set); err != nil {
		t.Fatal(err)
	}

	tables := lines(t, db, `
		SELECT concat_ws(' ', c.relname, d.citus_table_type, d.distribution_column,
			CASE WHEN d.colocation_id = (SELECT colocation_id FROM citus_tables WHERE table_name = 'user_collections'::regclass)
			THEN 'with its user' END)
		FROM pg_class c LEFT JOIN citus_tables d ON d.table_name = c.oid
		WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace ORDER BY c.relname`)
	want := []string{
		"batch_bsos distributed user_id with its user",
		"batches distributed user_id with its user",
		"bsos distributed user_id with its user",
		"collections reference <none>",
		"schema_migrations",
		"user_collections distributed user_id with its user",
	}
	if !slices.Equal(tables, want) {
		t.Errorf("tables:\n%s", strings.Join(tables, "\n"))
	}

	o, at := ss.Owner{UID: 7}, moment(0)
	for _, s := range []pgdb.Statement{
		sqlPut, sqlPost, sqlAppend, sqlCommit, sqlDeleteBSO, sqlDeleteBSOs, sqlDeleteCollection, sqlDeleteAll, sqlSweep,
	} {
		oneTask(t, db, call(s))
	}
	oneTask(t, db, sqlCollections, o.UID)
	oneTask(t, db, sqlUsage, o.UID, at)
	oneTask(t, db, sqlGet, o.UID, 7, "a", at)
	for _, sort := range []ss.Sort{ss.Newest, ss.Oldest, ss.ByIndex} {
		for _, ids := range [][]string{nil, {"a", "b"}} {
			list, args := arguments(o, 7, &ss.Query{Sort: sort, IDs: ids, Full: true})
			oneTask(t, db, list, args...)
		}
	}
}

var parameter = regexp.MustCompile(`\$\d+`)

// call is a writing statement with the user in place of its first parameter; the others
// do not decide where it runs.
func call(s pgdb.Statement) pgdb.Statement {
	s.SQL = parameter.ReplaceAllString(strings.Replace(s.SQL, "$1:", "7:", 1), "NULL")
	return s
}

// oneTask wants a plan that is one task on another node.
func oneTask(t *testing.T, db *pgdb.DB, s pgdb.Statement, args ...any) {
	t.Helper()
	plan := lines(t, db, `EXPLAIN `+s.SQL, args...)
	if !strings.Contains(plan[0], "Citus") || !slices.Contains(plan, "  Task Count: 1") {
		t.Errorf("%s is not one task:\n%s", s.Name, strings.Join(plan, "\n"))
	}
}

// lines is the answer of a statement that returns lines of text.
func lines(t *testing.T, db *pgdb.DB, sql string, args ...any) (all []string) {
	t.Helper()
	var line string
	err := db.Each(t.Context(), pgdb.Statement{Name: "test", SQL: sql}, args, func() {}, func() error {
		all = append(all, line)
		return nil
	}, &line)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
