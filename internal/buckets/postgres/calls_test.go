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
		sqlSetSettings, sqlDeleteBucket, sqlLock, sqlPut.Statement, sqlDelete.Statement, sqlDeleteVersion.Statement, sqlSetVersioning, sqlSetBucketLock, sqlDeleteObjects.Statement, sqlList.Statement,
		sqlCreateUpload.Statement, sqlPutPart.Statement, sqlAssemble.Statement, sqlComplete.Statement, sqlAbort, sqlRemove.Statement, sqlRemoveBucket,
		sqlSetSharks.Statement, sqlSetQuota, sqlLockUsage, sqlSetUsage, sqlShareAccount, sqlExpire.Statement, sqlAppendEvents.Statement)
}
