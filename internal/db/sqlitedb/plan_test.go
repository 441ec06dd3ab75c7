package sqlitedb_test

import (
	"testing"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
)

// TestStatementsArePreparedOnce checks that SQLite does not reprepare joins, limits and prefix searches for other
// parameters.
func TestStatementsArePreparedOnce(t *testing.T) {
	t.Parallel()
	db := open(t, sqlitedb.Options{})
	must(t, db.Write(t.Context(), "test", func(c *sqlite.Conn) error {
		for _, sql := range []string{`CREATE TABLE a (id INTEGER PRIMARY KEY, n TEXT)`, `CREATE INDEX a_n ON a (n)`, `CREATE TABLE b (id INTEGER, n TEXT)`} {
			if err := sqlitedb.Exec(c, sql); err != nil {
				return err
			}
		}
		return nil
	}))
	must(t, db.Read(t.Context(), "test", func(c *sqlite.Conn) error {
		prepared := 0
		must(t, c.SetAuthorizer(sqlite.AuthorizeFunc(func(a sqlite.Action) sqlite.AuthResult {
			if a.Type() == sqlite.OpSelect {
				prepared++
			}
			return sqlite.AuthResultOK
		})))
		for _, sql := range []string{
			`SELECT a.n FROM b JOIN a USING (id) WHERE b.id = ?`,
			`SELECT n FROM a LIMIT ?`,
			`SELECT n FROM a WHERE n LIKE ?`,
		} {
			prepared = 0
			for i := range 5 {
				must(t, sqlitedb.Exec(c, sql, i))
			}
			if prepared != 1 {
				t.Errorf("%s: prepared %d times", sql, prepared)
			}
		}
		return c.SetAuthorizer(nil)
	}))
}
