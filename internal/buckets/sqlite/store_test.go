package sqlite_test

import (
	"testing"

	zombiezen "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/buckets/sqlite"
	"holdfast/internal/buckets/storetest"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/testdb/opened"
)

func harness(t testing.TB, fault func(string) error) storetest.Harness {
	t.Helper()
	h := harnessOn(opened.SQLite(t, sqlitedb.Options{Fault: fault}, sqlite.Migrations))
	h.Faulty = harness
	return h
}

func harnessOn(db *sqlitedb.DB) storetest.Harness {
	s := sqlite.New(db)
	return storetest.Harness{
		Store: s, Uploads: s, Collector: s, References: s, Counters: s, Accounts: s, Nodes: s, Leases: s,
		Damage: func(t testing.TB, sql string) {
			err := db.Write(t.Context(), "damage", func(c *zombiezen.Conn) error { return sqlitex.Execute(c, sql, nil) })
			if err != nil {
				t.Fatal(err)
			}
		},
	}
}

// TestPing: the store says what is missing, and that nothing is.
func TestPing(t *testing.T) {
	t.Parallel()
	db := opened.SQLite(t, sqlitedb.Options{}, nil)
	opened.WantPing(t, db, sqlite.Migrations, sqlite.New(db).Ping)
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness { return harness(t, nil) })
}
