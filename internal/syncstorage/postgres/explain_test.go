package postgres

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/db/pgdb"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

const fill = `
	INSERT INTO collections (name) SELECT 'name-' || n FROM generate_series(1, 3000) n;
	INSERT INTO user_collections SELECT u, c, now(), 100, 5000 FROM generate_series(1, 400) u, generate_series(0, 9) c;
	INSERT INTO bsos SELECT u, 7, 'id-' || n, 10 * n, repeat('x', 50)::bytea, timestamp '2023-01-01' + n * interval '1 s',
			CASE WHEN n % 2 = 0 THEN timestamp '2024-01-01' + n * interval '1 h' END
		FROM generate_series(1, 400) u, generate_series(1, 100) n;
	INSERT INTO batches SELECT u, 7, 'batch', timestamp '2024-06-01' + u * interval '1 min' FROM generate_series(1, 400) u;
	INSERT INTO batch_bsos SELECT u, 7, 'batch', 'id-' || n, NULL, 'x', NULL FROM generate_series(50, 150) n, generate_series(1, 400) u;
	ANALYZE`

// hot returns the statements that requests or the sweep wait for, with their required indexes.
func hot() []struct {
	name    string
	st      pgdb.Statement
	args    []any
	indexes []string
} {
	var (
		o       = ss.Owner{UID: 200}
		now     = ss.At(time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC))
		at      = moment(now)
		none    = pgtype.Timestamp{}
		ids     = []string{"id-1", "id-2", "new"}
		x       = []byte("x")
		whole   = []any{ids, make([]*int64, 3), [][]byte{x, x, x}, make([]*int64, 3), []int64{1, 1, 1}}
		partial = []any{ids, make([]*int64, 3), [][]byte{x, nil, nil}, []*int64{nil, new(int64), nil}, []*int64{new(int64), nil, nil}}
		with    = func(before, updates []any, after ...any) []any { return slices.Concat(before, updates, after) }
		list    = func(q ss.Query) pgdb.Statement { s, _ := arguments(o, 7, &q, streamFrom); return s }
		asked   = func(q ss.Query) []any { _, args := arguments(o, 7, &q, streamFrom); return args }
		newest  = ss.Query{Full: true, Now: now, Limit: ss.Some(10)}
		oldest  = ss.Query{Full: true, Now: now, Sort: ss.Oldest, Limit: ss.Some(10), Newer: ss.Some(now - 1e9)}
		byIndex = ss.Query{Now: now, Sort: ss.ByIndex, Limit: ss.Some(10)}
		named   = ss.Query{Full: true, Now: now, IDs: ids}
	)
	const key, lock = "bsos_pkey", "user_collections_pkey"
	return []struct {
		name    string
		st      pgdb.Statement
		args    []any
		indexes []string
	}{
		{"put", sqlPut.Statement, []any{o.UID, 7, "id-1", nil, []byte("x"), nil, at, none, none, 0, 0, false, true}, []string{key, lock}},
		{"put under quota", sqlPut.Statement, []any{o.UID, 7, "id-1", nil, []byte("x"), nil, at, none, none, 10, 20, false, true}, []string{key, lock, "bsos_user_expiry_idx"}},
		{"post", sqlPost.Statement, with([]any{o.UID, 7}, whole, at, none, none, 0, 0, false, true), []string{key, lock}},
		{"post partial records", sqlPost.Statement, with([]any{o.UID, 7}, partial, at, none, none, 0, 0, false, true), []string{key, lock}},
		{"append", sqlAppend.Statement, with([]any{o.UID, 7, "batch", false, at}, partial, 1000, 1000, at, none, none, 1, 2, false, true),
			[]string{"batches_pkey", "batch_bsos_pkey", lock, key, "bsos_user_expiry_idx"}},
		{"commit", sqlCommit.Statement, with([]any{o.UID, 7, "batch"}, partial, 1000, 1000, at, none, none, 0, 0, false, true),
			[]string{"batches_pkey", "batch_bsos_pkey", lock, key}},
		{"restore", sqlRestore.Statement, []any{o.UID, 7, at, ids, make([]*int64, 3), [][]byte{x, x, x}, []int64{1, 1, 1}, make([]*int64, 3), at, none, none, 0, 0, false, true},
			[]string{key, lock}},
		{"totals of users", sqlTotals, []any{[]int64{o.UID, 201, 202}}, []string{lock}},
		{"export", sqlExport, []any{o.UID, at}, []string{key, lock}},
		{"set a quota", sqlSetQuota, []any{o.UID, 10}, nil},
		{"delete one", sqlDeleteBSO.Statement, []any{o.UID, 7, "id-1", at, none, none}, []string{key, lock}},
		{"delete some", sqlDeleteBSOs.Statement, []any{o.UID, 7, ids, at, none, none}, []string{key, lock}},
		{"delete a collection", sqlDeleteCollection.Statement, []any{o.UID, 7, at, none, none}, []string{lock}},
		{"delete all", sqlDeleteAll.Statement, []any{o.UID, none, none}, []string{lock}},
		{"get", sqlGet, []any{o.UID, 7, "id-1", at}, []string{key, lock}},
		{"collections", sqlCollections, []any{o.UID}, []string{lock, "collections_pkey"}},
		{"usage", sqlUsage, []any{o.UID, at}, []string{lock, "bsos_user_expiry_idx"}},
		{"list newest", list(newest), asked(newest), []string{"bsos_modified_idx", lock}},
		{"list oldest", list(oldest), asked(oldest), []string{"bsos_modified_idx", lock}},
		{"list by index", list(byIndex), asked(byIndex), []string{lock}},
		{"list by ids", list(named), asked(named), []string{key, lock}},
		{"what is due", sqlDue, []any{at, 100}, []string{"bsos_expiry_idx", "batch_expiry_idx"}},
		{"sweep", sqlSweep, []any{o.UID, at, 100}, []string{key, lock}},
	}
}

func TestPlans(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	opened.Postgres(t, pgdb.Options{URL: url}, Migrations)
	testdb.Script(t, url, fill)
	e := testdb.Explain(t, url)
	for _, h := range hot() {
		t.Run(h.name, func(t *testing.T) { e.Uses(t, h.indexes, h.st.SQL, h.args...) })
	}
}

// TestPlansWithoutStatistics checks that every record lookup in a new database uses the whole key.
func TestPlansWithoutStatistics(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	opened.Postgres(t, pgdb.Options{URL: url}, Migrations)
	testdb.Script(t, url, `
		INSERT INTO user_collections VALUES (200, 0, 'epoch', 0, 0), (200, 7, now(), 2, 2);
		INSERT INTO bsos SELECT 200, 7, unnest('{id-1,id-2}'::text[]), NULL, 'x', now();
		INSERT INTO batches VALUES (200, 7, 'batch', '2025-01-01');
		INSERT INTO batch_bsos VALUES (200, 7, 'batch', 'id-1')`)
	e := testdb.Explain(t, url)
	for _, h := range hot() {
		if !slices.Contains([]string{"put", "post", "post partial records", "append", "commit", "get", "list by ids"}, h.name) {
			continue
		}
		t.Run(h.name, func(t *testing.T) {
			for range 7 {
				byCTID := false
				for _, p := range e.Run(t, h.st.SQL, h.args...) {
					p.Plan.Walk(func(n *testdb.Node) {
						byCTID = byCTID || n.Type == "Tid Scan"
						// Summing expired records is not a lookup.
						if n.Table == "bsos" && strings.HasSuffix(n.Type, "Scan") && n.Type != "Tid Scan" && n.Index != "bsos_user_expiry_idx" &&
							(n.Index != "bsos_pkey" || !strings.Contains(n.Cond, "bso_id")) {
							t.Errorf("%s with %s finds a record in\n%s", n.Index, n.Cond, p.Query)
						}
					})
				}
				if byCTID != (h.st.Name == sqlPost.Name) {
					t.Errorf("records are written by their ctid: %t", byCTID)
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}
