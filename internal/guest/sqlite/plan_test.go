package sqlite

import (
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/testdb/opened"
)

// TestPlans checks that a list reads its own rows only, and sorts at most the rows of the same time.
func TestPlans(t *testing.T) {
	t.Parallel()
	db := opened.SQLite(t, sqlitedb.Options{}, Migrations)
	for sql, want := range map[string]string{
		sqlWishes:        "USING INDEX bff_consumer_ix_wishlist_session (guest_session_id=?)",
		sqlWishesAfter:   "USING INDEX bff_consumer_ix_wishlist_session (guest_session_id=? AND added_at<?)",
		sqlHandoffs:      "USING INDEX bff_consumer_ix_handoff_session (guest_session_id=?)",
		sqlHandoffsAfter: "USING INDEX bff_consumer_ix_handoff_session (guest_session_id=? AND minted_at<?)",
		sqlFindSessions:  "SEARCH bff_consumer_session_seen USING PRIMARY KEY (guest_session_id>? AND guest_session_id<?)",
		sqlNamed:         "USING INDEX bff_consumer_ix_handoff_name (guest_session_id=? AND property_id=?)",
		sqlVoidOpen:      "USING INDEX bff_consumer_ix_handoff_name (guest_session_id=?)",
		sqlSigningKey:    "USING INDEX bff_consumer_ix_handoff_keys_active (tenant_id=?)",
		sqlTenantKeys:    "USING INDEX bff_consumer_ix_handoff_keys_tenant (",
		sqlSuspensions:   "SEARCH bff_consumer_tenant_suspended_cache USING PRIMARY KEY (tenant_id>?)", // in key order, without a sort
	} {
		var plan []string
		err := db.Read(t.Context(), "plan", func(c *sqlite.Conn) (err error) {
			explain := `EXPLAIN QUERY PLAN ` + sql
			plan, err = sqlitedb.QueryAll(c, explain, func(r *sqlite.Stmt) string { return r.ColumnText(3) }, make([]any, c.Prep(explain).BindParamCount())...)
			return err
		})
		text := strings.Join(plan, "\n")
		sorts := strings.Contains(text, "TEMP B-TREE") && !strings.Contains(text, "TEMP B-TREE FOR LAST TERM OF ORDER BY")
		if err != nil || !strings.Contains(text, want) || sorts {
			t.Errorf("%s\nis done by\n%s\nwant %s, %v", sql, text, want, err)
		}
	}
}
