package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"holdfast/internal/db/pgdb"
	extpostgres "holdfast/internal/extstorage/postgres"
)

// inspectRecords says how the tables of extensions' records stand on PostgreSQL
// or Citus; indexed is metadata_index.
func inspectRecords(ctx context.Context, db *pgdb.DB, indexed bool) ([]Finding, error) {
	const what = "extstorage tables"
	in, err := extpostgres.Inspect(ctx, db)
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, p := range in.Problems {
		found = append(found, Finding{Wrong, what, p.Says, p.Mend})
	}
	switch {
	case indexed && !in.MetadataIndex:
		found = append(found, Finding{Warning, what, "the index of the metadata is not there", "run: holdfast migrate"})
	case !indexed && in.MetadataIndex:
		found = append(found, Finding{Warning, what, "there is an index of the metadata, which costs every write, and extstorage.metadata_index is off",
			"set it, or run: DROP INDEX CONCURRENTLY ext_storage_metadata_gin"})
	}
	if len(found) > 0 || in.Citus == "" {
		return found, nil
	}
	return []Finding{{State: Right, What: what, Says: fmt.Sprintf("Citus %s: distributed by tenant in %d shards, all of a tenant in one place", in.Citus, in.Shards)}}, nil
}

// checkAudit says whether there is a folder for the file of the audit.
func checkAudit(path string) Finding {
	const what = "extstorage.audit"
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return Finding{Wrong, what, err.Error(), "make the folder, for the user that runs holdfast"}
	}
	return Finding{State: Right, What: what, Says: path}
}
