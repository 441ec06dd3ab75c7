package postgres

import (
	"slices"
	"strings"
	"testing"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// TestDistribution: on Citus a user's rows are together, and what a request
// waits for is one task on the user's node. A write is sent there as the call
// that it is.
func TestDistribution(t *testing.T) {
	t.Parallel()
	url := testdb.CitusDatabase(t)
	db := opened.Postgres(t, pgdb.Options{URL: url}, Migrations)

	tables := opened.Lines(t, db, `
		SELECT concat_ws(' ', c.relname, d.citus_table_type, d.distribution_column,
			CASE WHEN d.colocation_id = (SELECT colocation_id FROM citus_tables WHERE table_name = 'user_collections'::regclass)
			THEN 'beside the lock' END)
		FROM pg_class c LEFT JOIN citus_tables d ON d.table_name = c.oid
		WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace ORDER BY c.relname`)
	if want := []string{
		"batch_bsos distributed user_id beside the lock",
		"batches distributed user_id beside the lock",
		"bsos distributed user_id beside the lock",
		"collections reference <none>",
		"schema_migrations",
		"user_collections distributed user_id beside the lock",
	}; !slices.Equal(tables, want) {
		t.Errorf("the tables are\n%s", strings.Join(tables, "\n"))
	}

	for _, h := range hot() {
		if h.st.Name == sqlDue.Name {
			continue // asks every node, once a sweep
		}
		plan := strings.Join(opened.Lines(t, db, `EXPLAIN `+h.st.SQL, h.args...), "\n")
		if !strings.HasPrefix(plan, "Custom Scan (Citus Adaptive)") || !strings.Contains(plan, "\n  Task Count: 1\n") ||
			strings.Contains(plan, "Distributed Subplan") {
			t.Errorf("%s is not one task:\n%s", h.name, plan)
		}
	}
}
