package postgres_test

import (
	"testing"

	"holdfast/internal/syncstorage/storetest"
	"holdfast/internal/testdb"
)

// TestStoreBehindPgBouncer runs the contract where a transaction is all that a
// connection is good for, and more callers are than connections.
func TestStoreBehindPgBouncer(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness {
		through := testdb.PgBouncer(t, testdb.PostgresDatabase(t), 4)
		return harness(t, testdb.WithParameter(t, through, "default_query_exec_mode", "exec"))
	})
}
