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

	tables := opened.CitusTables(t, db, "user_collections")
	if want := []string{
		"batch_bsos distributed user_id colocated",
		"batches distributed user_id colocated",
		"bsos distributed user_id colocated",
		"collections reference <none>",
		"schema_migrations",
		"user_collections distributed user_id colocated",
	}; !slices.Equal(tables, want) {
		t.Errorf("the tables are\n%s", strings.Join(tables, "\n"))
	}

	for _, h := range hot() {
		if h.st.Name == sqlDue.Name {
			continue // asks every node, once a sweep
		}
		opened.WantOneTask(t, db, h.name, h.st.SQL, h.args...)
	}
}
