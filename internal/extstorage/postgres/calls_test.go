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
		sqlApply.Statement, sqlApplyAll.Statement, sqlLock, sqlLeap, sqlRestore.Statement, sqlRestoreSchema.Statement, sqlSweep.Statement, sqlForget,
		sqlRegister.Statement, sqlDropSchemas, sqlSchemaStatus.Statement, sqlRevokeToken, sqlSetInstall.Statement, sqlRevokeInstall,
		sqlClose, sqlDelete.Statement, sqlReopen, sqlTenant)
}
