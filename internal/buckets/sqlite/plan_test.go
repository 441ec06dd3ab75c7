package sqlite

import (
	"maps"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/testdb/opened"
)

func versionPlans() map[string]string {
	const version = "sqlite_autoindex_manta_bucket_version_1 (owner=? AND bucket_id=? AND name=?"
	return map[string]string{
		sqlNewest:        version + ")",
		sqlNull:          "manta_bucket_version_null_idx (owner=? AND bucket_id=? AND name=?)",
		sqlVersion:       version + " AND version=?)",
		sqlVersionBody:   version + " AND version=?)",
		sqlPassMarker:    version + " AND version=?)",
		sqlRevealMarker:  version + " AND version=?)",
		sqlReveal:        version + " AND version=?)",
		sqlBuryVersion:   version + " AND version=?)",
		sqlDeleteVersion: version + " AND version=?)",
		sqlUpdateVersion: version + " AND version=?)",
		sqlHasVersions:   "sqlite_autoindex_manta_bucket_version_1 (owner=? AND bucket_id=?)",
		sqlListVersions:  "sqlite_autoindex_manta_bucket_version_1 (owner=? AND bucket_id=? AND (name,version)>(?,?))",
	}
}

func uploadPlans() map[string]string {
	const (
		upload = "sqlite_autoindex_manta_bucket_upload_1 (owner=? AND bucket_id=?"
		parts  = "sqlite_autoindex_manta_bucket_part_1 (owner=? AND upload_id=?"
	)
	return map[string]string{
		sqlUpload:      upload + " AND name=? AND id=?)",
		sqlEndUpload:   upload + " AND name=? AND id=?)",
		sqlListUploads: upload + " AND (name,id)>(?,?))",
		sqlOfBucket:    upload + ")",
		sqlOldUploads:  "manta_bucket_upload_created_idx (created<?)",
		sqlPart:        parts + " AND number=?)",
		sqlParts:       parts + " AND number>?)",
		sqlStartPart:   parts + " AND number=?)",
		sqlBuryPart:    parts + " AND number=?)",
		sqlMovePart:    parts + " AND number=?)",
		sqlFramePart:   parts + " AND number=?)",
		sqlSegments:    parts + ")",
		sqlUploadBytes: parts + ")",
	}
}

// TestPlans checks that each statement seeks by all possible columns and does not sort.
func TestPlans(t *testing.T) {
	t.Parallel()
	db := opened.SQLite(t, sqlitedb.Options{}, Migrations)
	const (
		object  = "sqlite_autoindex_manta_bucket_object_1 (owner=? AND bucket_id=?"
		garbage = "USING INDEX manta_bucket_deleted_object_id_idx (id=?)"
	)
	plans := map[string]string{
		sqlBucket:         "sqlite_autoindex_manta_bucket_1 (owner=? AND name=?)",
		sqlHasBucket:      "sqlite_autoindex_manta_bucket_1 (owner=? AND name=?)",
		sqlListBuckets:    "sqlite_autoindex_manta_bucket_1 (owner=? AND name>?)",
		sqlFindBuckets:    "manta_bucket_name_idx (name>? AND name<?)",
		sqlNameHolder:     "manta_bucket_name USING PRIMARY KEY (name=?)",
		sqlListNames:      "manta_bucket_name USING PRIMARY KEY (name>?)",
		sqlRestName:       "manta_bucket_name USING PRIMARY KEY (name=?)",
		sqlEndRests:       "manta_bucket_name_owner_idx (owner=? AND freed>? AND freed<?)",
		sqlFreeName:       "manta_bucket_name USING PRIMARY KEY (name=?)",
		sqlForgetNames:    "manta_bucket_name_freed_idx (freed<?)",
		sqlObject:         object + " AND name=?)",
		sqlHead:           object + " AND name=?)",
		sqlUpdateObject:   object + " AND name=?)",
		sqlBuryObject:     object + " AND name=?)",
		sqlDeleteObject:   object + " AND name=?)",
		sqlMoveObject:     object + " AND name=?)",
		sqlFrameObject:    object + " AND name=?)",
		sqlList:           object + " AND name>?)",
		sqlListFrom:       object + " AND name>?)",
		sqlListAll:        object + " AND name>?)",
		sqlListAllFrom:    object + " AND name>?)",
		sqlNextName:       "COVERING INDEX " + object + " AND name>?)",
		sqlHasObjects:     object + ")",
		sqlClaim:          "USING INDEX manta_bucket_deleted_object_deleted_at_idx (deleted_at<?)",
		sqlClaimed:        "USING INDEX manta_bucket_deleted_object_claim_idx (claim=?)",
		sqlRemove:         garbage,
		sqlMoveGarbage:    garbage,
		sqlEndClaim:       "manta_bucket_deleted_object_upload_idx (<expr>=?)",
		sqlNodeState:      "(id=?)",
		sqlMarked:         "USING PRIMARY KEY ((node,path)>(?,?))",
		sqlDueMarks:       "manta_bucket_damage_next_idx (next_attempt<?)",
		sqlUnmark:         "USING PRIMARY KEY (node=? AND path=?)",
		sqlDeletedBuckets: "COVERING INDEX manta_bucket_deleted_object_bucket_idx (owner=? AND bucket_id=?)",
		sqlRemoveBucket:   "manta_bucket_deleted_bucket_id_idx (id=?)",
		sqlUsage:          "USING PRIMARY KEY (owner=? AND bucket_id=?)",
		sqlMayGrow:        "USING PRIMARY KEY (owner=? AND bucket_id=?)",
		sqlBucketUsage:    "SEARCH u USING PRIMARY KEY (owner=? AND bucket_id=?)",
		sqlListAccounts:   "(name>?)",
		sqlDueLifecycles:  "manta_bucket_settings_lifecycle_idx ((owner,bucket_id)>(?,?))",
		sqlCompared:       object + " AND name=?)",
		sqlLifecycleRun:   "USING PRIMARY KEY (owner=? AND bucket_id=?)",
		sqlListKeys:       "(id>?)",
		sqlKeys:           "manta_bucket_key_account_idx (account=? AND id>?)",
	}
	maps.Copy(plans, versionPlans())
	maps.Copy(plans, uploadPlans())
	for sql, want := range plans {
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
		if !strings.Contains(all, want) || strings.Contains(all, "SCAN ") || strings.Contains(all, "TEMP B-TREE") {
			t.Errorf("%s\nis done by\n%s\nwant %s, without a scan or a sort", sql, all, want)
		}
	}
}
