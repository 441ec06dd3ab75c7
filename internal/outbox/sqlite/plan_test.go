package sqlite

import (
	"strings"
	"testing"

	zombiezen "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/outbox/storetest"
	"holdfast/internal/testdb/opened"
)

// TestPlans checks that listing does not read published events, and that the relay does not read dead events.
func TestPlans(t *testing.T) {
	t.Parallel()
	db, o := opened.SQLite(t, sqlitedb.Options{}, nil), New(storetest.Table)
	if err := db.Write(t.Context(), "test", func(c *zombiezen.Conn) error { return sqlitex.ExecuteScript(c, RetainingDDL("test_kept")+o.DDL(), nil) }); err != nil {
		t.Fatal(err)
	}
	k := OpenRetaining(db, "test_kept", clock.System).(*retaining)
	for sql, want := range map[string]string{
		o.next:      "SEARCH r USING INDEX test_outbox_refused_next_idx",
		k.waiting:   "SEARCH e USING INDEX test_kept_unpublished (position>?)",
		k.backlog:   "test_kept_unpublished",
		k.listDead:  "SEARCH e USING INDEX test_kept_dead (position>?)",
		k.countDead: "USING INDEX test_kept_dead",
		k.published: "SEARCH e USING INDEX sqlite_autoindex_test_kept_1 (id>?)",
		k.republish: "USING INDEX sqlite_autoindex_test_kept_1 (id=?)",
		k.find:      "USING INDEX sqlite_autoindex_test_kept_1 (id=?)",
	} {
		var plan []string
		err := db.Read(t.Context(), "plan", func(c *zombiezen.Conn) (err error) {
			explain := `EXPLAIN QUERY PLAN ` + sql
			plan, err = sqlitedb.QueryAll(c, explain, func(r *zombiezen.Stmt) string { return r.ColumnText(3) }, make([]any, c.Prep(explain).BindParamCount())...)
			return err
		})
		if text := strings.Join(plan, "\n"); err != nil || !strings.Contains(text, want) || strings.Contains(text, "TEMP B-TREE") {
			t.Errorf("%s\nis done by\n%s\nwant %s, %v", sql, text, want, err)
		}
	}
}
