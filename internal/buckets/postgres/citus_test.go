package postgres

import (
	"slices"
	"strings"
	"testing"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// TestDistribution checks that on Citus an account's rows are on one node, and that a
// request needs one task on that node.
func TestDistribution(t *testing.T) {
	t.Parallel()
	db := opened.Postgres(t, pgdb.Options{URL: testdb.CitusDatabase(t)}, Migrations)
	tables := opened.CitusTables(t, db, "manta_bucket")
	if want := []string{
		"manta_bucket distributed owner colocated",
		"manta_bucket_account reference <none>",
		"manta_bucket_deleted_bucket distributed owner colocated",
		"manta_bucket_deleted_object distributed owner colocated",
		"manta_bucket_hold reference <none>",
		"manta_bucket_key reference <none>",
		"manta_bucket_lease",
		"manta_bucket_node reference <none>",
		"manta_bucket_object distributed owner colocated",
		"manta_bucket_part distributed owner colocated",
		"manta_bucket_settings distributed owner colocated",
		"manta_bucket_upload distributed owner colocated",
		"manta_bucket_usage distributed owner colocated",
		"schema_migrations",
	}; !slices.Equal(tables, want) {
		t.Errorf("the tables are\n%s", strings.Join(tables, "\n"))
	}
	// Parts of transactions that compute: they are not delegated.
	inside := []string{sqlAssemble.Name, sqlUpdate.Name, sqlRemove.Name}
	for _, h := range ofOwner() {
		if !slices.Contains(inside, h.st.Name) {
			opened.WantOneTask(t, db, h.name, h.st.SQL, h.args...)
		}
	}
}
