package sqlite_test

import (
	"path/filepath"
	"testing"

	zombiezen "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
	"holdfast/internal/tokenserver/sqlite"
	"holdfast/internal/tokenserver/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, open)
}

// open migrates a file and opens it twice, like two processes.
func open(t testing.TB, faulty func(string) error) storetest.Database {
	t.Helper()
	path := filepath.Join(testdb.SQLite(t), "tokenserver.db")
	other := opened.SQLite(t, sqlitedb.Options{Path: path}, sqlite.Migrations)
	db := opened.SQLite(t, sqlitedb.Options{Path: path, Fault: faulty}, nil)
	return storetest.Database{
		Store: sqlite.New(db),
		Other: sqlite.New(other),
		SQL:   func(t testing.TB, sql string) [][]string { return query(t, other, sql) },
	}
}

func query(t testing.TB, db *sqlitedb.DB, sql string) (rows [][]string) {
	t.Helper()
	err := db.Write(t.Context(), "test", func(c *zombiezen.Conn) error {
		return sqlitex.ExecuteTransient(c, sql, &sqlitex.ExecOptions{ResultFunc: func(stmt *zombiezen.Stmt) error {
			row := make([]string, stmt.ColumnCount())
			for i := range row {
				if row[i] = stmt.ColumnText(i); stmt.ColumnIsNull(i) {
					row[i] = "-"
				}
			}
			rows = append(rows, row)
			return nil
		}})
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return rows
}

func TestPingBeforeMigration(t *testing.T) {
	t.Parallel()
	db := opened.SQLite(t, sqlitedb.Options{}, nil)
	s := sqlite.New(db)
	opened.WantPing(t, db, sqlite.Migrations, s.Ping)
}

func TestMigrateOverForeignTables(t *testing.T) {
	t.Parallel()
	db := opened.SQLite(t, sqlitedb.Options{}, nil)
	query(t, db, `CREATE TABLE services (id INTEGER PRIMARY KEY, service VARCHAR(30) UNIQUE, pattern VARCHAR(128))`)
	query(t, db, `INSERT INTO services VALUES (5, 'sync-1.5', '{node}/1.5/{uid}')`)
	opened.Migrate(t, db, sqlite.Migrations)
	if rows := query(t, db, `SELECT id FROM services`); len(rows) != 1 || rows[0][0] != "5" {
		t.Errorf("services: %v", rows)
	}
	if nodes, err := sqlite.New(db).ListNodes(t.Context()); err != nil || len(nodes) != 0 {
		t.Errorf("nodes: %v, %v", nodes, err)
	}
}
