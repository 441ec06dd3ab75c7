package sqlitedb_test

import (
	"path/filepath"
	"testing"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
)

// TestUntrustedSchema checks that the triggers and views of a file from elsewhere may call only harmless functions.
func TestUntrustedSchema(t *testing.T) {
	t.Parallel()
	db := open(t, sqlitedb.Options{Path: filepath.Join(t.TempDir(), "a.db"), Readers: 1})
	trusts := func(c *sqlite.Conn) (trusted bool) {
		_, _, err := sqlitedb.QueryRow(c, `PRAGMA trusted_schema`, func(r *sqlite.Stmt) bool { trusted = r.ColumnBool(0); return true })
		if err != nil {
			t.Error(err)
		}
		return trusted
	}
	check := func(c *sqlite.Conn) error {
		if trusts(c) {
			t.Error("the schema is trusted")
		}
		return nil
	}
	if err := db.Read(t.Context(), "read", check); err != nil {
		t.Error(err)
	}
	if err := db.Write(t.Context(), "write", check); err != nil {
		t.Error(err)
	}
}
