package sqlite

import (
	"fmt"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/testdb/opened"
)

// TestPlans checks that each statement searches by all index columns it can, and sorts few rows.
func TestPlans(t *testing.T) {
	t.Parallel()
	db := opened.SQLite(t, sqlitedb.Options{}, Migrations)
	const (
		mine    = "(tenant_id=? AND extension_install_id=?"
		records = "SEARCH ext_storage_records USING INDEX sqlite_autoindex_ext_storage_records_1 " + mine
	)
	for sql, want := range map[string]string{
		sqlHeader:          records + " AND namespace=? AND key=?)",
		sqlValue:           "SEARCH ext_storage_records USING INTEGER PRIMARY KEY (rowid=?)",
		sqlBeginWrite:      "SEARCH r USING INDEX sqlite_autoindex_ext_storage_records_1 " + mine + " AND namespace=? AND key=?)",
		sqlGet:             records + " AND namespace=? AND key=?)",
		sqlUpdateRecord:    "SEARCH ext_storage_records USING INTEGER PRIMARY KEY (rowid=?)",
		sqlUpdateValue:     "SEARCH ext_storage_records USING INTEGER PRIMARY KEY (rowid=?)",
		sqlDeleteRow:       "SEARCH ext_storage_records USING INTEGER PRIMARY KEY (rowid=?)",
		sqlDeleteRecord:    records + " AND namespace=? AND key=?)",
		sqlList:            records + " AND namespace=? AND key>? AND key<?)",
		sqlListReverse:     records + " AND namespace=? AND key>? AND key<?)",
		sqlExport:          records + " AND (namespace,key)>(?,?))",
		sqlUsage:           records + ")",
		sqlExpired:         "SEARCH ext_storage_records USING INDEX ext_storage_reclaim_idx " + mine + " AND ttl_expires_at<?)",
		sqlExpiring:        "SEARCH ext_storage_records USING INDEX ext_storage_reclaim_idx " + mine + " AND ttl_expires_at>? AND ttl_expires_at<?)",
		sqlExpiredOwners:   "USING COVERING INDEX ext_storage_sweep_idx (ttl_expires_at<?)",
		sqlInstallUsage:    "USING PRIMARY KEY " + mine + ")",
		sqlSetUsage:        "USING PRIMARY KEY " + mine + ")",
		sqlNamespaceKeys:   "USING PRIMARY KEY " + mine + " AND namespace=?)",
		sqlDeleteNamespace: "USING PRIMARY KEY " + mine + " AND namespace=?)",
		sqlChanges:         "USING PRIMARY KEY " + mine + " AND seq>?)",
		sqlAnswer:          "USING PRIMARY KEY " + mine + " AND once_key=?)",
		sqlActiveVersion:   "USING INDEX ext_storage_schemas_active_idx " + mine + " AND namespace=?)",
		sqlActive:          "USING INDEX ext_storage_schemas_active_idx " + mine + " AND namespace=?)",
		sqlSchema:          "USING INDEX sqlite_autoindex_ext_storage_schemas_1 " + mine + " AND namespace=? AND schema_version=?)",
		sqlSchemas:         "USING INDEX sqlite_autoindex_ext_storage_schemas_1 " + mine + " AND namespace=? AND schema_version<?)",
		sqlDropSchemas:     "USING INDEX sqlite_autoindex_ext_storage_schemas_1 " + mine + " AND namespace=? AND schema_version<?)",
		sqlSweepChanges:    "USING COVERING INDEX ext_storage_changes_sweep_idx (at<?)",
		sqlSweepAnswers:    "USING COVERING INDEX ext_storage_answers_sweep_idx (at<?)",
		sqlTotals:          "USING COVERING INDEX ext_storage_sweep_idx (ttl_expires_at<?)",
		sqlSweepTokens:     "USING COVERING INDEX ext_storage_revoked_tokens_sweep_idx (expires_at<?)",
		sqlRevokedTokens:   "USING PRIMARY KEY " + mine + ")",
		sqlInstall:         "USING PRIMARY KEY " + mine + ")",
		sqlListUsage:       "SEARCH u USING PRIMARY KEY ((tenant_id,extension_install_id)>(?,?) AND (tenant_id,extension_install_id)<(?,?))",
		sqlListInstalls:    "SEARCH i USING PRIMARY KEY ((tenant_id,extension_install_id)>(?,?) AND (tenant_id,extension_install_id)<(?,?))",
		sqlFindUsage:       "USING INDEX ext_storage_usage_install_idx (extension_install_id>? AND extension_install_id<?)",
		sqlFindInstalls:    "INDEX ext_storage_installs_install_idx (extension_install_id>? AND extension_install_id<?)",
		sqlFindRecords:     "SEARCH r USING INDEX sqlite_autoindex_ext_storage_records_1 " + mine + " AND namespace=? AND key>? AND key<?)",
		sqlListRevoked:     "SEARCH i USING INDEX ext_storage_installs_revoked_idx ((tenant_id,extension_install_id)>(?,?) AND (tenant_id,extension_install_id)<(?,?))",
		sqlUncounted:       "USING COVERING INDEX sqlite_autoindex_ext_storage_records_1 ((tenant_id,extension_install_id)>(?,?) AND (tenant_id,extension_install_id)<(?,?))",
	} {
		var plan []string
		err := db.Read(t.Context(), "plan", func(c *sqlite.Conn) (err error) {
			explain := `EXPLAIN QUERY PLAN ` + sql
			plan, err = sqlitedb.QueryAll(c, explain, func(r *sqlite.Stmt) string { return r.ColumnText(3) },
				make([]any, c.Prep(explain).BindParamCount())...)
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", sql, err)
			continue
		}
		all := strings.Join(plan, "\n")
		if !strings.Contains(all, want) || strings.Contains(all, "SCAN ext_") && sql != sqlTotals { // sqlTotals reads all installs
			t.Errorf("%s\nis done by\n%s\nwant %s", sql, all, want)
		}
		// These sort few rows: records that expire together, groups by namespace, a sweep's owners, and uncounted owners.
		if sorts := strings.Contains(all, "TEMP B-TREE"); sorts && sql != sqlExpired && sql != sqlExpiring && sql != sqlExpiredOwners && sql != sqlUncounted {
			t.Errorf("%s\nsorts:\n%s", sql, all)
		}
		if sql == sqlExpired && !strings.Contains(all, "LAST 2 TERMS") && !strings.Contains(all, "RIGHT PART") {
			t.Errorf("%s\nsorts more than the records that expire at one time:\n%s", sql, fmt.Sprint(plan))
		}
	}
}
