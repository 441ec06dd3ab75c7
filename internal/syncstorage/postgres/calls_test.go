package postgres

import (
	"testing"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

func TestNamedCalls(t *testing.T) {
	t.Parallel()
	opened.WantNamedCalls(t, opened.Postgres(t, pgdb.Options{URL: testdb.PostgresDatabase(t)}, Migrations),
		sqlName, sqlPut.Statement, sqlPost.Statement, sqlAppend.Statement, sqlCommit.Statement, sqlDeleteBSO.Statement, sqlDeleteBSOs.Statement,
		sqlDeleteCollection.Statement, sqlDeleteAll.Statement, sqlRestore.Statement, sqlSweep)
}
