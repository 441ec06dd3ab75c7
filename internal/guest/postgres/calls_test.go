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
		sqlBegin, sqlConsume, sqlDropSilent, sqlEpoch, sqlHandoff, sqlSigningKey)
}
