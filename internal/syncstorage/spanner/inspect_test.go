//test:unraced compiling gRPC for the race detector takes a minute
//test:check most tests need the Spanner emulator

package spanner_test

import (
	"fmt"
	"testing"

	"holdfast/internal/db/migrate"
	"holdfast/internal/db/spannerdb"
	backend "holdfast/internal/syncstorage/spanner"
)

// TestInspect finds indexes on bsos and missing row deletion policies, as in older tables of Mozilla's server.
func TestInspect(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	if in, err := backend.New(openDB(t, options(t))).Inspect(ctx); err != nil || len(in.Indexes)+len(in.Unswept) > 0 {
		t.Errorf("own tables: %+v, %v", in, err)
	}
	opts := options(t)
	db, err := spannerdb.Open(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const older = theirTables + `
ALTER TABLE bsos DROP ROW DELETION POLICY;
CREATE INDEX BsoModified ON bsos (fxa_uid, fxa_kid, collection_id, modified DESC), INTERLEAVE IN user_collections;
CREATE INDEX BsoExpiry ON bsos (fxa_uid, fxa_kid, collection_id, expiry), INTERLEAVE IN user_collections;`
	set := migrate.Set{Service: "theirs", Migrations: []migrate.Migration{{Version: 1, Name: "theirs", SQL: older}}}
	if _, err := db.Migrate(ctx, set); err != nil {
		t.Fatal(err)
	}
	in, err := backend.New(openDB(t, opts)).Inspect(ctx)
	if want := "{Indexes:[BsoExpiry BsoModified] Unswept:[bsos]}"; err != nil || fmt.Sprintf("%+v", in) != want {
		t.Errorf("%+v, %v, want %s", in, err, want)
	}
}
