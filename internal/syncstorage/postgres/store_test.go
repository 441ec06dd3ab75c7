package postgres_test

import (
	"testing"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/postgres"
	"holdfast/internal/syncstorage/storetest"
	"holdfast/internal/testdb"
)

// open returns a store on a migrated database.
func open(t testing.TB, opts pgdb.Options) *postgres.Store {
	t.Helper()
	return postgres.New(openDB(t, opts))
}

func openDB(t testing.TB, opts pgdb.Options) *pgdb.DB {
	t.Helper()
	db, err := pgdb.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	set, err := postgres.Migrations()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Migrate(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	return db
}

// TestStore runs the contract. The database is the suite's own, because a
// sweep reaches all that is in it.
func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness { return harness(t, testdb.PostgresDatabase(t)) })
}

func TestStoreOnCitus(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness { return harness(t, testdb.CitusDatabase(t)) })
}

// TestStoreWithoutPreparedStatements runs the contract as it is behind a
// pooler that keeps no statements.
func TestStoreWithoutPreparedStatements(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness {
		return harness(t, testdb.WithParameter(t, testdb.PostgresDatabase(t), "default_query_exec_mode", "exec"))
	})
}

func harness(t testing.TB, url string) storetest.Harness {
	return storetest.Harness{
		Store: open(t, pgdb.Options{URL: url, MaxConns: 20}),
		Faulty: func(t testing.TB, fault func(point string) error) syncstorage.Store {
			// Migrated above; the fault would meet the migrations here.
			db, err := pgdb.Open(t.Context(), pgdb.Options{URL: url, Fault: fault})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(db.Close)
			return postgres.New(db)
		},
	}
}
