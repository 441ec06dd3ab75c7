package ext

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/extstorage/postgres"
)

// inspect checks the tables on PostgreSQL or Citus. indexed is the setting
// metadata_index.
func inspect(ctx context.Context, db *pgdb.DB, indexed bool) ([]service.Finding, error) {
	const what = "extstorage tables"
	in, err := postgres.Inspect(ctx, db)
	if err != nil {
		return nil, err
	}
	var found []service.Finding
	for _, p := range in.Problems {
		found = append(found, service.Finding{State: service.Wrong, What: what, Says: p.Says, Fix: p.Fix})
	}
	switch {
	case indexed && !in.MetadataIndex:
		found = append(found, service.Finding{State: service.Warning, What: what, Says: "the index of the metadata is missing", Fix: "run: holdfast migrate"})
	case !indexed && in.MetadataIndex:
		found = append(found, service.Finding{
			State: service.Warning, What: what, Says: "the metadata has an index, which slows down every write, but extstorage.metadata_index is off",
			Fix: "set it, or run: DROP INDEX CONCURRENTLY ext_storage_metadata_gin",
		})
	}
	if len(found) > 0 || in.Citus == "" {
		return found, nil
	}
	return []service.Finding{{State: service.OK, What: what, Says: fmt.Sprintf("Citus %s: distributed by tenant in %d shards, all of a tenant in one place", in.Citus, in.Shards)}}, nil
}

// probe checks the file of the audit and its folder.
func (s *Extensions) probe(context.Context) []service.Finding {
	const what = "extstorage.audit"
	path, ok := strings.CutPrefix(s.cfg.Audit, "file:")
	if !ok {
		return nil
	}
	const create = "create the folder for the user that runs holdfast"
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); err != nil {
		return []service.Finding{{State: service.Wrong, What: what, Says: dir + ": " + service.Reason(err), Fix: create}}
	}
	if f := service.CheckFolder(what, dir, create); f.State != service.OK {
		return []service.Finding{f}
	}
	switch f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0); {
	case err == nil:
		_ = f.Close() // nothing was written
	case !errors.Is(err, fs.ErrNotExist):
		return []service.Finding{{State: service.Wrong, What: what, Says: path + ": " + service.Reason(err), Fix: "chown it to the user that runs holdfast"}}
	}
	return []service.Finding{{State: service.OK, What: what, Says: path}}
}
