package sqlite

import (
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/testdb/opened"
)

// TestPlans checks that lists read only their users' counters.
func TestPlans(t *testing.T) {
	t.Parallel()
	db := opened.SQLite(t, sqlitedb.Options{}, Migrations)
	for sql, want := range map[string]string{
		sqlTotals:         "SEARCH u USING PRIMARY KEY (user_id=?)",
		sqlCounters:       "SEARCH user_collections USING PRIMARY KEY (user_id=?)",
		sqlUserCollection: "SEARCH user_collections USING PRIMARY KEY (user_id=? AND collection_id=?)",
	} {
		var plan []string
		err := db.Read(t.Context(), "plan", func(c *sqlite.Conn) (err error) {
			explain := `EXPLAIN QUERY PLAN ` + sql
			plan, err = sqlitedb.QueryAll(c, explain, func(r *sqlite.Stmt) string { return r.ColumnText(3) }, make([]any, c.Prep(explain).BindParamCount())...)
			return err
		})
		if text := strings.Join(plan, "\n"); err != nil || !strings.Contains(text, want) || strings.Contains(text, "SCAN user_collections") || strings.Contains(text, "SCAN u ") {
			t.Errorf("%s\nis done by\n%s\nwant %s, %v", sql, text, want, err)
		}
	}
}
