package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/canonjson"
	"holdfast/internal/db/pgdb"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/inspection"
	"holdfast/internal/outbox"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// TestDistribution checks that a tenant's rows are on one Citus node, and that a request is a single task there.
func TestDistribution(t *testing.T) {
	t.Parallel()
	url := testdb.CitusDatabase(t)
	db := opened.Postgres(t, pgdb.Options{URL: url}, Migrations)

	opened.WantCitusTables(t, db, "ext_storage_records",
		"ext_storage_answers distributed tenant_id colocated",
		"ext_storage_changes distributed tenant_id colocated",
		"ext_storage_floor reference <none>",
		"ext_storage_installs distributed tenant_id colocated",
		"ext_storage_namespaces distributed tenant_id colocated",
		"ext_storage_outbox distributed tenant_id colocated",
		"ext_storage_outbox_refused distributed tenant_id colocated",
		"ext_storage_outbox_relay",
		"ext_storage_records distributed tenant_id colocated",
		"ext_storage_revoked_tokens distributed tenant_id colocated",
		"ext_storage_schemas distributed tenant_id colocated",
		"ext_storage_usage distributed tenant_id colocated",
		"schema_migrations",
	)
	if broken := opened.Lines(t, db, `SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid`); len(broken) > 0 {
		t.Errorf("invalid indexes: %v", broken)
	}

	s, o := New(db, Options{}), ext.Owner{Tenant: filledTenant, Install: filledInstall}
	w := ext.Write{Now: filledAt, Quota: ext.DefaultQuota(), Ops: []ext.Op{
		{Namespace: "a", Key: "k", Value: "1", Metadata: canonjson.EmptyObject},
		{Namespace: "b", Key: "k", Value: "1", Metadata: canonjson.EmptyObject, ExpiresAt: filledAt + 1},
	}}
	if _, err := s.Apply(t.Context(), o, w); err != nil {
		t.Fatal(err)
	}
	want := inspection.Totals{Installs: 1, Bytes: 6, Keys: 2, Namespaces: 2, ExpiredPending: 1, TenantsOverSoft: 1}
	if got, err := s.Totals(t.Context(), 5, filledAt+1); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}

	for _, h := range hot() {
		opened.WantOneTask(t, db, h.name, h.st.SQL, h.args...)
	}
}

// TestSpansOnCitus checks that a page of all installs is one task per shard, and in order.
func TestSpansOnCitus(t *testing.T) {
	t.Parallel()
	db := opened.Postgres(t, pgdb.Options{URL: testdb.CitusDatabase(t)}, Migrations)
	s := New(db, Options{})
	var owners []ext.Owner
	w := ext.Write{Now: filledAt, Quota: ext.DefaultQuota(), Ops: []ext.Op{{Namespace: "a", Key: "k", Value: "1", Metadata: canonjson.EmptyObject}}}
	for n := range 40 {
		o := ext.Owner{Tenant: ext.TenantID(fmt.Sprintf("b0000000-0000-4000-8000-%012d", n/2)), Install: ext.InstallID(fmt.Sprintf("c0000000-0000-4000-8000-%012d", n))}
		if _, err := s.Apply(t.Context(), o, w); err != nil {
			t.Fatal(err)
		}
		owners = append(owners, o)
	}
	var got []ext.Owner
	for span := (inspection.Span{All: true}); ; span.After = got[len(got)-1] {
		page, err := s.ListUsage(t.Context(), span, 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range page {
			got = append(got, in.Owner)
		}
		if len(page) < 7 {
			break
		}
	}
	if !slices.Equal(got, owners) {
		t.Errorf("pages of %v, want %v", got, owners)
	}
	for name, st := range map[string]pgdb.Statement{"a page of all": sqlListUsage, "what is not counted": sqlUncounted} {
		plan := strings.Join(opened.Lines(t, db, `EXPLAIN `+st.SQL, bounds(inspection.Span{All: true}, 7)...), "\n")
		if strings.Count(plan, "Task Count: ") != 1 || strings.Contains(plan, "Distributed Subplan") {
			t.Errorf("%s is not a task on every shard:\n%s", name, plan)
		}
	}
	plan := strings.Join(opened.Lines(t, db, `EXPLAIN `+sqlListInstalls.SQL, pageOfInstalls(inspection.Span{All: true}, true, 7)...), "\n")
	if strings.Count(plan, "Task Count: ") != 1 || strings.Contains(plan, "Distributed Subplan") || !strings.Contains(plan, "ext_storage_installs_revoked_idx") {
		t.Errorf("revoked installs are not found by their index on every shard:\n%s", plan)
	}
}

// delegated reports whether the coordinator sent a node the statement's call itself.
func delegated(sent, sql string) bool {
	call, _, _ := strings.Cut(strings.TrimPrefix(sql, "SELECT "), "(")
	return strings.HasPrefix(sent, "issuing SELECT public."+call+"(")
}

// TestOneMessage checks that a write on Citus is a single message to the tenant's node, without two-phase commit.
func TestOneMessage(t *testing.T) {
	t.Parallel()
	url := testdb.CitusDatabase(t)
	opened.Postgres(t, pgdb.Options{URL: url}, Migrations)
	log := testdb.LogCitus(t, url)

	o := ext.Owner{Tenant: filledTenant, Install: filledInstall}
	w := ext.Write{Now: filledAt, Quota: ext.DefaultQuota(), Ops: []ext.Op{
		{Namespace: "a", Key: "k", Value: "1", Metadata: canonjson.EmptyObject},
		{Namespace: "b", Key: "k", Value: "1", Metadata: canonjson.EmptyObject, ExpiresAt: filledAt + 1},
		{Kind: ext.Delete, Namespace: "a", Key: "k"},
	}}
	for _, c := range []struct {
		name string
		w    ext.Write
	}{
		{"put of a new key", ext.Write{Ops: w.Ops[:1], Now: w.Now, Quota: w.Quota}},
		{"put", ext.Write{Ops: w.Ops[:1], Now: w.Now, Quota: w.Quota}},
		{"batch once", ext.Write{Ops: w.Ops, Now: w.Now, Quota: w.Quota, IdempotencyKey: &ext.IdempotencyKey{Key: "once"}}},
		{"put that recounts", ext.Write{Ops: w.Ops[:1], Now: w.Now + 1, Quota: ext.Quota{Bytes: 3, Keys: 1, Namespaces: 1}}},
	} {
		log.Reset()
		var answer []byte
		if err := log.QueryRow(t.Context(), sqlApply.SQL, sqlApply.Args(applying{o, c.w})...).Scan(&answer); err != nil || !bytes.HasPrefix(answer, []byte(`{"items":[{`)) {
			t.Fatalf("%s: %s, %v", c.name, answer, err)
		}
		if len(log.Sent) != 1 || !delegated(log.Sent[0], sqlApply.SQL) || len(log.Ran) < 6 {
			t.Errorf("%s: the messages are\n%s\nand the node ran\n%s", c.name, strings.Join(log.Sent, "\n"), strings.Join(log.Ran, "\n"))
		}
	}

	log.Reset()
	var answers []byte
	all := []*ext.Optimistic{{Write: ext.Write{Ops: w.Ops[:1], Now: w.Now, Quota: w.Quota}}, {Write: w}}
	if err := log.QueryRow(t.Context(), sqlApplyAll.SQL, sqlApplyAll.Args(applyingAll{o, all})...).Scan(&answers); err != nil || !bytes.HasPrefix(answers, []byte(`[{"items":[{`)) {
		t.Fatalf("two writes: %s, %v", answers, err)
	}
	if len(log.Sent) != 1 || !delegated(log.Sent[0], sqlApplyAll.SQL) || len(log.Ran) < 6 {
		t.Errorf("two writes: the messages are\n%s\nand the node ran\n%s", strings.Join(log.Sent, "\n"), strings.Join(log.Ran, "\n"))
	}

	// For comparison: Citus does not delegate the write in a transaction block.
	log.Reset()
	tx, err := log.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), sqlApply.SQL, sqlApply.Args(applying{o, w})...); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(log.Sent) < 2 {
		t.Errorf("in a block the messages are\n%s", strings.Join(log.Sent, "\n"))
	}
}

// TestRebalance drains a worker and fills it again as the guide says, and checks that no acknowledged write is lost.
func TestRebalance(t *testing.T) {
	t.Parallel()
	url := testdb.CitusDatabase(t)
	testdb.FewShards(t, url)
	s := New(opened.Postgres(t, pgdb.Options{URL: url}, Migrations), Options{})
	owner := func(tenant int) ext.Owner {
		return ext.Owner{Tenant: ext.TenantID(fmt.Sprintf("b0000000-0000-4000-8000-%012d", tenant)), Install: filledInstall}
	}
	written := make([]atomic.Int64, 20) // per tenant
	quota := ext.DefaultQuota()
	quota.Keys = 1 << 30
	testdb.Rebalance(t, url, func(ctx context.Context, n int) error {
		w := ext.Write{Now: filledAt, Quota: quota, Ops: []ext.Op{
			{Namespace: "a", Key: ext.Key(fmt.Sprint(n)), Value: "1", Metadata: canonjson.EmptyObject},
		}}
		_, err := s.Apply(ctx, owner(n%len(written)), w)
		if err == nil {
			written[n%len(written)].Add(1)
		}
		return err
	})
	for tenant := range written {
		page, err := s.ListUsage(t.Context(), inspection.Span{Tenant: owner(tenant).Tenant}, 2)
		if err != nil {
			t.Fatal(err)
		}
		if want := written[tenant].Load(); len(page) != 1 || page[0].Keys != want {
			t.Errorf("tenant %d has %+v after %d writes", tenant, page, want)
		}
	}
}

func TestHungWorker(t *testing.T) {
	t.Parallel()
	var keys []string
	for tenant := range 12 {
		keys = append(keys, fmt.Sprintf("a0000000-0000-4000-8000-%012d", tenant))
	}
	opened.HungWorker(t, Migrations, "ext_storage_records", keys, func(db *pgdb.DB) func(context.Context, int) error {
		s := New(db, Options{})
		return func(ctx context.Context, key int) error {
			o := ext.Owner{Tenant: ext.TenantID(keys[key]), Install: filledInstall}
			w := ext.Write{Now: filledAt, Quota: ext.DefaultQuota(), Ops: []ext.Op{{Namespace: "a", Key: "k", Value: "1", Metadata: canonjson.EmptyObject}}}
			if _, err := s.Apply(ctx, o, w); err != nil {
				return err
			}
			_, err := s.Get(ctx, o, "a", "k", filledAt)
			return err
		}
	})
}

// TestRelayOnHungWorker checks that the audit relay leaves connections for requests while a worker hangs, because both
// share the worker's limits.
func TestRelayOnHungWorker(t *testing.T) {
	t.Parallel()
	var keys []string
	for tenant := range 12 {
		keys = append(keys, fmt.Sprintf("a0000000-0000-4000-8000-%012d", tenant))
	}
	opened.HungWorker(t, Migrations, "ext_storage_records", keys, func(db *pgdb.DB) func(context.Context, int) error {
		box := New(db, Options{}).Outbox()
		return func(ctx context.Context, key int) error {
			all := outbox.Query{Parts: 1<<outbox.Partitions - 1, Limit: 10, Now: time.Now(), Owners: []string{keys[key]}}
			if _, _, err := box.Next(ctx, all); err != nil {
				return err
			}
			return box.Done(ctx, "test", 0, []outbox.Event{{Owner: keys[key], Stream: string(filledInstall), Seq: 1}})
		}
	})
}
