package postgres

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/canonjson"
	"holdfast/internal/db/pgdb"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/inspection"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// fill creates tenants with two installs each, with namespaces, records (half of them with a TTL), schemas, changes
// and stored responses, and many empty installs.
const fill = `
	CREATE TEMP TABLE install AS
		SELECT ('a0000000-0000-4000-8000-' || lpad(t::text, 12, '0'))::uuid AS tenant, ('b0000000-0000-4000-8000-' || lpad(i::text, 12, '0'))::uuid AS install
		FROM generate_series(1, 60) t, generate_series(1, 2) i;
	ANALYZE install;
	INSERT INTO ext_storage_records SELECT tenant, install, 'ns-' || n, 'key-' || k, 1, to_jsonb(repeat('x', 50)), '{}',
			CASE WHEN k % 2 = 0 THEN timestamptz '2024-01-01 00:00Z' + k * interval '1 h' END, '2023-01-01', '2023-01-01', 52, 2, 100 * n + k
		FROM install, generate_series(0, 3) n, generate_series(1, 100) k;
	INSERT INTO ext_storage_namespaces SELECT tenant, install, 'ns-' || n, 100 FROM install, generate_series(0, 3) n;
	INSERT INTO ext_storage_usage SELECT tenant, install, 400 * 54, 400, 4, '2023-01-01', 400 FROM install;
	INSERT INTO ext_storage_schemas SELECT tenant, install, 'ns-' || n, v, 'true', CASE v WHEN 3 THEN 'active' ELSE 'deprecated' END
		FROM install, generate_series(0, 3) n, generate_series(1, 3) v;
	INSERT INTO ext_storage_changes SELECT tenant, install, s, 'put', 'ns-1', 'key-1', 1, timestamptz '2024-02-01 00:00Z' + s * interval '1 h'
		FROM install, generate_series(1, 400) s;
	INSERT INTO ext_storage_answers SELECT tenant, install, 'once-' || n, 'x', '[]', timestamptz '2024-02-01 00:00Z' + n * interval '1 h'
		FROM install, generate_series(1, 50) n;
	INSERT INTO ext_storage_revoked_tokens SELECT tenant, install, 'token-' || n, timestamptz '2024-02-01 00:00Z' + n * interval '1 h', '2024-01-01'
		FROM install, generate_series(1, 50) n;
	INSERT INTO ext_storage_outbox SELECT tenant, install, s, 'extstorage.put', 'ns-1/key-1', '{}', '2024-02-01' FROM install, generate_series(1, 100) s;
	INSERT INTO ext_storage_usage SELECT gen_random_uuid(), gen_random_uuid() FROM generate_series(1, 3000);
	INSERT INTO ext_storage_installs (tenant_id, extension_install_id, tier, created_at, updated_at)
		SELECT tenant_id, extension_install_id, 'default', '2023-01-01', '2023-01-01' FROM ext_storage_usage;
	DROP TABLE install`

// An install from fill, and a time at which half of the records with a TTL have expired.
const (
	filledTenant  = "a0000000-0000-4000-8000-000000000050"
	filledInstall = "b0000000-0000-4000-8000-000000000002"
	filledAt      = ext.Moment(1_704_067_200_000 + 50*3_600_000) // 2024-01-01 plus 50 hours
)

// step is a statement on the critical path of requests or the sweep, with the indexes that its plan must use.
type step struct {
	name    string
	st      pgdb.Statement
	args    []any
	indexes []string
}

func argumentsOf(w ext.Write) []any {
	return sqlApply.Args(applying{ext.Owner{Tenant: filledTenant, Install: filledInstall}, w})
}

func hot() []step {
	const (
		key      = "ext_storage_records_pkey"
		lock     = "ext_storage_usage_pkey"
		active   = "ext_storage_schemas_active_idx"
		schemas  = "ext_storage_schemas_pkey"
		names    = "ext_storage_namespaces_pkey"
		reclaim  = "ext_storage_reclaim_idx"
		changes  = "ext_storage_changes_pkey"
		answers  = "ext_storage_answers_pkey"
		tokens   = "ext_storage_revoked_tokens_pkey"
		tenant   = filledTenant
		install  = filledInstall
		document = `{"type":"object"}`
	)
	var (
		at    = now(filledAt)
		later = now(filledAt + 60*24*3_600_000)
		put   = ext.Op{Namespace: "ns-1", Key: "key-1", Value: `1`, Metadata: canonjson.EmptyObject, Schema: 3}
		fresh = ext.Op{Namespace: "ns-2", Key: "new", Value: `1`, Metadata: canonjson.EmptyObject, Schema: 3}
		gone  = ext.Op{Kind: ext.Delete, Namespace: "ns-3", Key: "key-3"}
		write = func(quota ext.Quota, ops ...ext.Op) []any {
			return argumentsOf(ext.Write{Ops: ops, Now: filledAt, Quota: quota})
		}
		once = argumentsOf(ext.Write{Ops: []ext.Op{put}, Now: filledAt, Quota: ext.DefaultQuota(), IdempotencyKey: &ext.IdempotencyKey{Key: "once-x"}})
		full = ext.Quota{Bytes: 400 * 54, Namespaces: 4, Keys: 100}
		page = func(prefix, after, end string) []any {
			return []any{tenant, install, "ns-1", after, prefix, end, true, true, at, 26, 1000}
		}
	)
	return []step{
		{"put", sqlApply.Statement, write(ext.DefaultQuota(), put), []string{key, lock, active}},
		{"put of a new key", sqlApply.Statement, write(ext.DefaultQuota(), fresh), []string{key, lock, active, names}},
		{"put once", sqlApply.Statement, once, []string{key, lock, active, answers}},
		{"batch", sqlApply.Statement, write(ext.DefaultQuota(), put, fresh, gone), []string{key, lock, active, names}},
		{"put that recounts", sqlApply.Statement, write(full, fresh), []string{key, lock, active, names, reclaim}},
		{"delete", sqlApply.Statement, write(ext.DefaultQuota(), gone), []string{key, lock, names}},
		{"get", sqlGet, []any{tenant, install, "ns-1", "key-1", at}, []string{key}},
		{"list", sqlList.Statement, page("", "", top), []string{key}},
		{"list a prefix", sqlList.Statement, page("key-1", "key-11", "key-2"), []string{key}},
		{"list in reverse", sqlListReverse.Statement, page("key-1", "", "key-2"), []string{key}},
		{"find records", sqlFindRecords, []any{tenant, install, 1000, "key-1", "key-2", at, 10}, []string{names, key}},
		{"export", sqlExport.Statement, []any{tenant, install, "ns-1", "key-2", at, 100, 1000}, []string{key}},
		{"changes", sqlChanges, []any{tenant, install, 390, 100}, []string{changes, lock}},
		{"usage", sqlUsage, []any{tenant, install, at}, nil},
		{"register", sqlRegister.Statement, []any{tenant, install, "ns-1", document, nil, at, 100, 32}, []string{lock, schemas}},
		{"set a status", sqlSchemaStatus.Statement, []any{tenant, install, "ns-1", 1, "active", at}, []string{lock, schemas}},
		{"schemas", sqlSchemas, []any{tenant, install, "ns-1", 3, 2, 100}, []string{schemas}},
		{"schema", sqlSchema, []any{tenant, install, "ns-1", 3}, []string{schemas}},
		{"active schema", sqlActive, []any{tenant, install, "ns-1"}, []string{active}},
		{"install", sqlInstall, []any{tenant, install}, []string{"ext_storage_installs_pkey"}},
		{"install and revoked tokens", sqlInstallState, []any{tenant, install, at}, []string{"ext_storage_installs_pkey", tokens}},
		{"revoked tokens", sqlRevokedTokens, []any{tenant, install, at}, []string{tokens}},
		{"revoke a token", sqlRevokeToken, []any{tenant, install, "new", at, at}, nil},
		{"sweep tokens", sqlSweepTokens, []any{tenant, install, []string{"token-1"}, later}, []string{tokens}},
		{"set an install", sqlSetInstall.Statement, []any{tenant, install, "", "{}", nil, nil, at, true}, []string{lock}},
		{"swap a quota", sqlSwapQuota, []any{tenant, install, "", "{}", nil, "", `{"bytes":1}`, nil, at}, []string{"ext_storage_installs_pkey"}},
		{"the next install", sqlNextInstall, []any{tenant, "00000000-0000-0000-0000-000000000000"}, []string{key, lock, schemas, names, changes, answers, tokens}},
		{"close an install", sqlClose, []any{tenant, install, at}, []string{lock}},
		{"delete some", sqlDelete.Statement, []any{tenant, install, at, 10, 1000, later, `"admin"`, `""`}, []string{lock}},
		{"sweep", sqlSweep.Statement, []any{tenant, install, later, later, 20, []int64{1, 2}, []string{"once-1"}, later}, []string{key, lock, names, reclaim, changes, answers}},
	}
}

func due() []step {
	args := []any{now(filledAt), 100}
	return []step{
		{"records that are due", sqlDueRecords, args, []string{"ext_storage_sweep_idx"}},
		{"changes that are due", sqlDueChanges, args, []string{"ext_storage_changes_sweep_idx"}},
		{"answers that are due", sqlDueAnswers, args, []string{"ext_storage_answers_sweep_idx"}},
		{"tokens that are due", sqlDueTokens, args, []string{"ext_storage_revoked_tokens_sweep_idx"}},
	}
}

func TestPlans(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	opened.Postgres(t, pgdb.Options{URL: url}, Migrations)
	testdb.Script(t, url, fill+`; ANALYZE`)
	e := testdb.Explain(t, url)
	e.OneRow = []string{"ext_storage_floor"}
	for _, h := range append(hot(), due()...) {
		t.Run(h.name, func(t *testing.T) { e.Uses(t, h.indexes, h.st.SQL, h.args...) })
	}
	t.Run("pages", func(t *testing.T) { plansOfPages(t, e) })
	t.Run("totals", func(t *testing.T) { plansOfTotals(t, url, e) })
}

func plansOfPages(t *testing.T, e *testdb.Explained) {
	for _, h := range hot() {
		if h.st.Name != sqlList.Name && h.st.Name != sqlExport.Name {
			continue
		}
		for _, p := range e.Run(t, h.st.SQL, h.args...) {
			p.Plan.Walk(func(n *testdb.Node) {
				if n.Type == "Sort" || n.Type == "Incremental Sort" {
					t.Errorf("%s: %s in\n%s", h.name, n.Type, p.Query)
				}
			})
		}
	}
}

// plansOfTotals checks that counting expired records uses their index and stops at the limit.
func plansOfTotals(t *testing.T, url string, e *testdb.Explained) {
	db := opened.Postgres(t, pgdb.Options{URL: url}, nil)
	at := filledAt + 60*24*3_600_000
	got, err := New(db, Options{}).Totals(t.Context(), 2*400*54-1, at)
	want := inspection.Totals{Installs: 120, Bytes: 120 * 400 * 54, Keys: 120 * 400, Namespaces: 120 * 4, ExpiredPending: inspection.ExpiredCounted, TenantsOverSoft: 60}
	if err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for _, p := range e.Run(t, sqlTotals.SQL, 1, now(at), inspection.ExpiredCounted) {
		p.Plan.Walk(func(n *testdb.Node) {
			if n.Table == "ext_storage_records" && n.Index != "ext_storage_sweep_idx" {
				t.Errorf("expired records are found by %s %s", n.Type, n.Index)
			}
		})
	}
}

// TestPlansOfSpans checks that a page of all installs is read along the indexes without sorting, and that uncounted
// installs are searched only within its bounds.
func TestPlansOfSpans(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	opened.Postgres(t, pgdb.Options{URL: url}, Migrations)
	testdb.Script(t, url, `
		INSERT INTO ext_storage_usage SELECT gen_random_uuid(), '`+filledInstall+`', 540, 10, 1, '2023-01-01', 10 FROM generate_series(1, 3000);
		INSERT INTO ext_storage_installs (tenant_id, extension_install_id, tier, created_at, updated_at)
			SELECT tenant_id, extension_install_id, 'default', '2023-01-01', '2023-01-01' FROM ext_storage_usage;
		INSERT INTO ext_storage_namespaces SELECT tenant_id, extension_install_id, 'ns', 10 FROM ext_storage_usage;
		INSERT INTO ext_storage_records SELECT tenant_id, extension_install_id, 'ns', 'key-' || k, 1, '"x"', '{}', NULL, '2023-01-01', '2023-01-01', 52, 2, k
			FROM ext_storage_usage, generate_series(1, 10) k;
		ANALYZE`)
	e := testdb.Explain(t, url)
	e.OneRow = []string{"ext_storage_floor"}
	owner := func(n string) ext.Owner {
		return ext.Owner{Tenant: ext.TenantID(n + filledTenant[2:]), Install: filledInstall}
	}
	const usage, installs = "ext_storage_usage_pkey", "ext_storage_installs_pkey"
	for _, h := range []step{
		{"from the first", sqlListUsage, bounds(inspection.Span{All: true}, 100), []string{usage, installs}},
		{"after one", sqlListUsage, bounds(inspection.Span{All: true, After: owner("80")}, 100), []string{usage, installs}},
		{"of a tenant", sqlListUsage, bounds(inspection.Span{Tenant: filledTenant}, 100), []string{usage, installs}},
		{"installs from the first", sqlListInstalls, pageOfInstalls(inspection.Span{All: true}, false, 100), []string{usage, installs}},
		{"installs after one", sqlListInstalls, pageOfInstalls(inspection.Span{All: true, After: owner("80")}, false, 100), []string{usage, installs}},
		{"installs of a tenant", sqlListInstalls, pageOfInstalls(inspection.Span{Tenant: filledTenant}, false, 100), []string{usage, installs}},
		{"revoked installs", sqlListInstalls, pageOfInstalls(inspection.Span{All: true, After: owner("80")}, true, 100), []string{usage, "ext_storage_installs_revoked_idx"}},
		{"find counters", sqlFindUsage, []any{"a0000000-0000-0000-0000-000000000000", "afffffff-ffff-ffff-ffff-ffffffffffff", 10}, []string{"ext_storage_usage_install_idx"}},
		{"find installs", sqlFindInstalls, []any{"a0000000-0000-0000-0000-000000000000", "afffffff-ffff-ffff-ffff-ffffffffffff", 10}, []string{"ext_storage_installs_install_idx"}},
		{"not counted", sqlUncounted, bounds(inspection.Span{All: true, After: owner("80"), Last: owner("88")}, 100),
			[]string{usage, "ext_storage_records_pkey", "ext_storage_namespaces_pkey"}},
	} {
		for range 7 {
			used := map[string]bool{}
			for _, p := range e.Run(t, h.st.SQL, h.args...) {
				p.Plan.Walk(func(n *testdb.Node) {
					used[n.Index] = true
					switch {
					case n.Type == "Seq Scan", h.st.Name != sqlUncounted.Name && n.Type == "Sort":
						t.Errorf("%s: %s of %s in\n%s", h.name, n.Type, n.Table, p.Query)
					case n.Index != "" && !strings.HasSuffix(n.Index, "_install_idx") && !strings.Contains(n.Cond, "ROW(tenant_id, extension_install_id) > ROW("):
						t.Errorf("%s: %s is read from its beginning, with the condition %s", h.name, n.Index, n.Cond)
					}
				})
			}
			for _, index := range h.indexes {
				if !used[index] {
					t.Errorf("%s: %s is not used; used are %v", h.name, index, used)
				}
			}
			if t.Failed() {
				return
			}
		}
	}
}

func TestWritesCountNothing(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	opened.Postgres(t, pgdb.Options{URL: url}, Migrations)
	testdb.Script(t, url, `
		INSERT INTO ext_storage_records SELECT '`+filledTenant+`', '`+filledInstall+`', 'ns-1', 'key-' || k, 1, '"x"', '{}', NULL, '2023-01-01', '2023-01-01', 3, 2, k
			FROM generate_series(1, 1000) k;
		INSERT INTO ext_storage_namespaces VALUES ('`+filledTenant+`', '`+filledInstall+`', 'ns-1', 1000);
		INSERT INTO ext_storage_usage VALUES ('`+filledTenant+`', '`+filledInstall+`', 5000, 1000, 1, '2023-01-01', 1000); ANALYZE`)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	put := func(key ext.Key) ext.Op {
		return ext.Op{Namespace: "ns-1", Key: key, Value: "1", Metadata: canonjson.EmptyObject}
	}
	for name, op := range map[string]ext.Op{
		"put": put("key-7"), "put of a new key": put("new"), "delete": {Kind: ext.Delete, Namespace: "ns-1", Key: "key-8"},
	} {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var (
			answer []byte
			read   int64
		)
		w := ext.Write{Ops: []ext.Op{op}, Now: filledAt, Quota: ext.DefaultQuota()}
		if err := tx.QueryRow(t.Context(), sqlApply.SQL, argumentsOf(w)...).Scan(&answer); err != nil || !bytes.HasPrefix(answer, []byte(`{"items":[{`)) {
			t.Fatalf("%s: %s, %v", name, answer, err)
		}
		err = tx.QueryRow(t.Context(), `SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_xact_user_tables WHERE relname LIKE 'ext\_%'`).Scan(&read)
		if err != nil || read > 20 {
			t.Errorf("%s reads %d rows, %v", name, read, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPlansWithoutStatistics checks that a new database finds a record by its whole key, and a page by its bounds.
func TestPlansWithoutStatistics(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	opened.Postgres(t, pgdb.Options{URL: url}, Migrations)
	testdb.Script(t, url, `
		INSERT INTO ext_storage_usage VALUES ('`+filledTenant+`', '`+filledInstall+`');
		INSERT INTO ext_storage_schemas SELECT '`+filledTenant+`', '`+filledInstall+`', 'ns-' || n, 3, 'true', 'active' FROM generate_series(0, 3) n`)
	e := testdb.Explain(t, url)
	e.OneRow = []string{"ext_storage_floor"}
	for _, h := range hot() {
		if h.st.Name != sqlApply.Name && h.st.Name != sqlGet.Name && h.st.Name != sqlList.Name || h.name == "put that recounts" {
			continue
		}
		t.Run(h.name, func(t *testing.T) {
			for range 7 {
				for _, p := range e.Run(t, h.st.SQL, h.args...) {
					p.Plan.Walk(func(n *testdb.Node) {
						if n.Table == "ext_storage_records" && strings.HasSuffix(n.Type, "Scan") &&
							(n.Index != "ext_storage_records_pkey" || !strings.Contains(n.Cond, "(key ") && !strings.Contains(n.Cond, "(key)")) {
							t.Errorf("%s with %s finds a record in\n%s", n.Index, n.Cond, p.Query)
						}
					})
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}

func TestOutboxTable(t *testing.T) {
	t.Parallel()
	tables, index, _ := strings.Cut(auditTable().DDL(), "\n-- Keeps")
	for file, want := range map[string]string{"0001_tables.sql": tables, "0007_index_refused_events.sql": index} {
		text, err := migrations.ReadFile("migrations/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" || !strings.Contains(string(text), want) {
			t.Errorf("%s lacks\n%s", file, want)
		}
	}
}
