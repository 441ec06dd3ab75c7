package sqlite_test

import (
	"testing"

	zombiezen "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/db/sqlitedb"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/sqlite"
	"holdfast/internal/extstorage/storetest"
	"holdfast/internal/testdb/opened"
)

func open(t testing.TB, fault func(string) error) *sqlitedb.DB {
	t.Helper()
	return opened.SQLite(t, sqlitedb.Options{Fault: fault}, sqlite.Migrations)
}

func harness(t testing.TB, fault func(string) error) storetest.Harness {
	t.Helper()
	h := harnessOn(open(t, fault))
	h.Faulty = harness
	return h
}

func harnessOn(db *sqlitedb.DB) storetest.Harness {
	s := sqlite.New(db, sqlite.Options{})
	return storetest.Harness{
		Store: s, Inspector: s, Registry: s, Installs: s, Tokens: s, Deletions: s,
		Events: func(t testing.TB, o ext.Owner) []storetest.Event { return events(t, db, o) },
		Damage: func(t testing.TB, sql string) {
			err := db.Write(t.Context(), "damage", func(c *zombiezen.Conn) error { return sqlitex.Execute(c, sql, nil) })
			if err != nil {
				t.Fatal(err)
			}
		},
	}
}

func events(t testing.TB, db *sqlitedb.DB, o ext.Owner) (all []storetest.Event) {
	t.Helper()
	err := db.Read(t.Context(), "events", func(c *zombiezen.Conn) error {
		return sqlitex.Execute(c, `SELECT seq, topic, key, payload, created_at FROM ext_storage_outbox
			WHERE tenant_id = ? AND extension_install_id = ? ORDER BY seq`, &sqlitex.ExecOptions{
			Args: []any{string(o.Tenant), string(o.Install)},
			ResultFunc: func(r *zombiezen.Stmt) error {
				all = append(all, storetest.Event{
					Seq: r.ColumnInt64(0), Topic: r.ColumnText(1), Key: r.ColumnText(2), Payload: r.ColumnText(3),
					At: ext.Moment(r.ColumnInt64(4) / 1000),
				})
				return nil
			},
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestPing(t *testing.T) {
	t.Parallel()
	db := opened.SQLite(t, sqlitedb.Options{}, nil)
	s := sqlite.New(db, sqlite.Options{})
	opened.WantPing(t, db, sqlite.Migrations, s.Ping)
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness { return harness(t, nil) })
}
