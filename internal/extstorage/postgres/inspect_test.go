package postgres

import (
	"slices"
	"strings"
	"testing"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/extstorage/backend"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

func wantInspection(t *testing.T, db *pgdb.DB, problems ...string) backend.Inspection {
	t.Helper()
	in, err := New(db, Options{}).Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var says []string
	for _, p := range in.Problems {
		says = append(says, p.Says+": "+p.Fix)
	}
	if !slices.Equal(says, problems) {
		t.Errorf("the problems are\n%s\nwant\n%s", strings.Join(says, "\n"), strings.Join(problems, "\n"))
	}
	return in
}

func TestInspect(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	db := opened.Postgres(t, pgdb.Options{URL: url}, Migrations)
	if in := wantInspection(t, db); in.MetadataIndex {
		t.Errorf("%+v", in)
	}
	ensure := func(want bool) {
		t.Helper()
		if made, err := New(db, Options{}).EnsureMetadataIndex(t.Context()); err != nil || made != want {
			t.Errorf("made %t, %v", made, err)
		}
	}
	ensure(true)
	if in := wantInspection(t, db); !in.MetadataIndex {
		t.Error("MetadataIndex is false")
	}
	ensure(false)
	testdb.Script(t, url, `UPDATE pg_index SET indisvalid = false
		WHERE indexrelid IN ('ext_storage_metadata_gin'::regclass, 'ext_storage_sweep_idx'::regclass)`)
	in := wantInspection(t, db, "the index ext_storage_metadata_gin is invalid: run: holdfast migrate",
		"the index ext_storage_sweep_idx is invalid: REINDEX INDEX CONCURRENTLY ext_storage_sweep_idx")
	if in.MetadataIndex {
		t.Error("MetadataIndex is true for an invalid index")
	}
	ensure(true)
	testdb.Script(t, url, in.Problems[1].Fix)
	wantInspection(t, db)
}

// TestInspectCitus checks that the metadata index is created in the shards, and that Inspect reports an index that is
// invalid in some shards.
func TestInspectCitus(t *testing.T) {
	t.Parallel()
	url := testdb.CitusDatabase(t)
	db := opened.Postgres(t, pgdb.Options{URL: url}, Migrations)
	wantInspection(t, db)
	for _, want := range []bool{true, false} {
		if made, err := New(db, Options{}).EnsureMetadataIndex(t.Context()); err != nil || made != want {
			t.Errorf("made %t, %v", made, err)
		}
	}
	if in := wantInspection(t, db); !in.MetadataIndex {
		t.Error("MetadataIndex is false")
	}
	testdb.Script(t, url, `SELECT run_command_on_workers($$UPDATE pg_index SET indisvalid = false
		WHERE indexrelid::regclass::text LIKE 'ext_storage_sweep_idx_%'$$)`)
	in, err := New(db, Options{}).Inspect(t.Context())
	if err != nil || len(in.Problems) == 0 || !strings.Contains(in.Problems[0].Says, "invalid indexes: ext_storage_sweep_idx_") {
		t.Errorf("an index that is invalid in the shards is not reported: %+v, %v", in, err)
	}
}
