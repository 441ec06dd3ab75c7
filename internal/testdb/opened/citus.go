package opened

import (
	"slices"
	"strings"
	"testing"

	"holdfast/internal/db/pgdb"
)

// WantCitusTables compares tables with their distribution by Citus: kind, distribution column, and "colocated" if a
// table is placed with the table named by with.
func WantCitusTables(t testing.TB, db *pgdb.DB, with string, want ...string) {
	t.Helper()
	tables := Lines(t, db, `
		SELECT concat_ws(' ', c.relname, d.citus_table_type, d.distribution_column,
			CASE WHEN d.colocation_id = (SELECT colocation_id FROM citus_tables WHERE table_name = $1::text::regclass)
			THEN 'colocated' END)
		FROM pg_class c LEFT JOIN citus_tables d ON d.table_name = c.oid
		WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace ORDER BY c.relname`, with)
	if !slices.Equal(tables, want) {
		t.Errorf("the tables are\n%s", strings.Join(tables, "\n"))
	}
}

// WantOneTask expects Citus to run a statement as a single task on one node.
func WantOneTask(t testing.TB, db *pgdb.DB, name, sql string, args ...any) {
	t.Helper()
	plan := strings.Join(Lines(t, db, `EXPLAIN `+sql, args...), "\n")
	if !strings.HasPrefix(plan, "Custom Scan (Citus Adaptive)") || !strings.Contains(plan, "\n  Task Count: 1\n") ||
		strings.Contains(plan, "Distributed Subplan") {
		t.Errorf("%s is not one task:\n%s", name, plan)
	}
}
