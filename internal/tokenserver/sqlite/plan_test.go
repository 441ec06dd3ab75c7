package sqlite

import (
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/testdb/opened"
)

func TestPlans(t *testing.T) {
	t.Parallel()
	db := opened.SQLite(t, sqlitedb.Options{}, Migrations)
	for sql, want := range map[string]string{
		sqlListUsers:    "SEARCH u USING INTEGER PRIMARY KEY (rowid>?)",
		sqlFindUsers:    "SEARCH u USING INDEX lookup_idx (email>? AND email<?)",
		sqlListAccess:   "USING PRIMARY KEY (fxa_uid>?)",
		sqlRefused:      "USING INDEX refused_sign_ins_last_at_idx",
		sqlLabelsOf:     "SEARCH account_labels USING PRIMARY KEY (fxa_uid=?)",
		sqlFindLabels:   "SEARCH l USING INDEX account_labels_key_idx ((label_key,fxa_uid)>(?,?) AND label_key<?)",
		sqlFindAccounts: "SEARCH users USING COVERING INDEX lookup_idx (email>? AND email<?)",
		sqlAllOfAccount: "USING INDEX lookup_idx (email=? AND service=?)",
	} {
		var plan []string
		err := db.Read(t.Context(), "plan", func(c *sqlite.Conn) (err error) {
			explain := `EXPLAIN QUERY PLAN ` + sql
			plan, err = sqlitedb.QueryAll(c, explain, func(r *sqlite.Stmt) string { return r.ColumnText(3) },
				make([]any, c.Prep(explain).BindParamCount())...)
			return err
		})
		text := strings.Join(plan, "\n")
		if err != nil || !strings.Contains(text, want) || strings.Contains(text, "B-TREE FOR ORDER BY") && sql != sqlAllOfAccount && sql != sqlFindAccounts {
			t.Errorf("%s:\n%s\nwant %s, %v", sql, text, want, err)
		}
	}
}
