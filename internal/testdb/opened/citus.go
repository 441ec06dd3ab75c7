package opened

import (
	"strings"
	"testing"

	"holdfast/internal/db/pgdb"
)

// CitusTables lists the tables of a database with how Citus distributes each:
// its kind, its distribution column, and "colocated" when its shards are placed
// with those of the table that is named.
func CitusTables(t testing.TB, db *pgdb.DB, with string) []string {
	t.Helper()
	return Lines(t, db, `
		SELECT concat_ws(' ', c.relname, d.citus_table_type, d.distribution_column,
			CASE WHEN d.colocation_id = (SELECT colocation_id FROM citus_tables WHERE table_name = $1::text::regclass)
			THEN 'colocated' END)
		FROM pg_class c LEFT JOIN citus_tables d ON d.table_name = c.oid
		WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace ORDER BY c.relname`, with)
}

// WantOneTask checks that Citus answers a statement by one task on one node.
func WantOneTask(t testing.TB, db *pgdb.DB, name, sql string, args ...any) {
	t.Helper()
	plan := strings.Join(Lines(t, db, `EXPLAIN `+sql, args...), "\n")
	if !strings.HasPrefix(plan, "Custom Scan (Citus Adaptive)") || !strings.Contains(plan, "\n  Task Count: 1\n") ||
		strings.Contains(plan, "Distributed Subplan") {
		t.Errorf("%s is not one task:\n%s", name, plan)
	}
}
