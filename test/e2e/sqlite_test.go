package e2e

import (
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// alter changes a database file directly, unlike any server.
func alter(t *testing.T, path, sql string) {
	t.Helper()
	number(t, path, sql)
}

// number returns a statement's number, or 0.
func number(t *testing.T, path, sql string) (n int64) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	err = sqlitex.ExecuteTransient(c, sql, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		n = s.ColumnInt64(0)
		return nil
	}})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}
