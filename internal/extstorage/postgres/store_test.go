package postgres_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"holdfast/internal/canonjson"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/inspection"
	"holdfast/internal/extstorage/postgres"
	"holdfast/internal/extstorage/storetest"
	"holdfast/internal/suite"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

func TestMain(m *testing.M) { suite.Main(m, "25") }

func open(t testing.TB, opts pgdb.Options) *postgres.Store {
	t.Helper()
	return postgres.New(opened.Postgres(t, opts, postgres.Migrations), postgres.Options{})
}

// TestStore uses its own database, because a sweep affects all installs.
func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness { return harness(t, testdb.PostgresDatabase(t), nil) })
}

func TestStoreOnCitus(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness { return harness(t, testdb.CitusDatabase(t), nil) })
}

// TestStoreBehindPgBouncer uses transaction pooling with more callers than connections. The suite never cancels during
// a statement, which crashes PgBouncer 1.18.
func TestStoreBehindPgBouncer(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness {
		through := testdb.PgBouncer(t, testdb.PostgresDatabase(t), 4)
		h := harness(t, testdb.WithParameter(t, through, "default_query_exec_mode", "exec"), nil)
		h.Soak = suite.Soak{Why: "the other groups behave the same through a pooler", But: []string{"Batch", "Changes"}}
		return h
	})
}

func harness(t testing.TB, url string, fault func(point string) error) storetest.Harness {
	t.Helper()
	opened.Postgres(t, pgdb.Options{URL: url}, postgres.Migrations) // without faults
	h := harnessOn(opened.Postgres(t, pgdb.Options{URL: url, MaxConns: 20, Fault: fault}, nil))
	h.Faulty = func(t testing.TB, fault func(point string) error) storetest.Harness {
		return harness(t, testdb.PostgresDatabase(t), fault)
	}
	return h
}

func harnessOn(db *pgdb.DB) storetest.Harness {
	s := postgres.New(db, postgres.Options{})
	return storetest.Harness{
		Store: s, Inspector: s, Registry: s, Installs: s, Tokens: s, Deletions: s,
		Events: func(t testing.TB, o ext.Owner) []storetest.Event { return events(t, db, o) },
		Damage: func(t testing.TB, sql string) {
			if _, err := db.Exec(t.Context(), pgdb.Statement{Name: "damage", SQL: sql}); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func events(t testing.TB, db *pgdb.DB, o ext.Owner) (all []storetest.Event) {
	t.Helper()
	var (
		e  storetest.Event
		at time.Time
	)
	err := db.ForEach(t.Context(), pgdb.Statement{Name: "test", SQL: `
		SELECT seq, topic, key, payload::text, created_at FROM ext_storage_outbox
		WHERE tenant_id = $1::uuid AND extension_install_id = $2::uuid ORDER BY seq`},
		[]any{string(o.Tenant), string(o.Install)}, func() { all = nil }, func() error {
			e.At = ext.At(at)
			all = append(all, e)
			return nil
		}, &e.Seq, &e.Topic, &e.Key, &e.Payload, &at)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func owner(n byte) ext.Owner {
	const digits = "0123456789abcdef"
	tail := "00000000-0000-4000-8000-0000000000" + string([]byte{digits[n>>4], digits[n&15]})
	return ext.Owner{Tenant: ext.TenantID("a" + tail[1:]), Install: ext.InstallID("b" + tail[1:])}
}

const start ext.Moment = 1_700_000_000_123

func TestPing(t *testing.T) {
	t.Parallel()
	db := opened.Postgres(t, pgdb.Options{URL: testdb.PostgresDatabase(t)}, nil)
	s := postgres.New(db, postgres.Options{})
	if _, err := s.Usage(t.Context(), owner(1), start); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("a read before the migrations: %v", err)
	}
	opened.WantPing(t, db, postgres.Migrations, s.Ping)
}

// TestWithoutPreparedStatements runs each operation in the modes that a pooler may require: the driver sends argument
// types itself, or sends text.
func TestWithoutPreparedStatements(t *testing.T) {
	testdb.CheckOnly(t, "it repeats every step for poolers")
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	for i, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			s := open(t, pgdb.Options{URL: testdb.WithParameter(t, url, "default_query_exec_mode", mode)})
			everyStep(t, s, owner(byte(1+i)))
		})
	}
}

func everyStep(t *testing.T, s *postgres.Store, o ext.Owner) {
	t.Helper()
	ctx := t.Context()
	w := ext.Write{Now: start, Quota: ext.DefaultQuota(), Caller: ext.Caller{Kind: "token", ID: "it's \\ {\"me\"}\x00"}}
	apply := func(ops ...ext.Op) ext.Applied {
		t.Helper()
		w.Ops = ops
		a, err := s.Apply(ctx, o, w)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	const value canonjson.Value = `{"a":[1.50,"\\ ' \" {x,y} \u0001ü"],"big":123456789012345678901234567890}`
	canonical, err := canonjson.Parse([]byte(value), 1000)
	if err != nil {
		t.Fatal(err)
	}
	put := ext.Op{Namespace: "toys", Key: `k'\"{},ü`, Value: canonical, Metadata: `{"m":1}`, ExpiresAt: start + 60_000}
	w.IdempotencyKey = &ext.IdempotencyKey{Key: "once'", Request: [32]byte{0, 255}}
	first := apply(put, ext.Op{Namespace: "toys", Key: "b", Value: `null`, Metadata: canonjson.EmptyObject})
	want := ext.Applied{
		Items: []ext.Item{
			{Revision: 1, Seq: 1, Created: true, CreatedAt: start, UpdatedAt: start, ExpiresAt: start + 60_000},
			{Revision: 1, Seq: 2, Created: true, CreatedAt: start, UpdatedAt: start},
		},
	}
	if !reflect.DeepEqual(first, want) {
		t.Errorf("Apply: %+v, want %+v", first, want)
	}
	want.Replayed = true
	if again := apply(put); !reflect.DeepEqual(again, want) {
		t.Errorf("the same again: %+v", again)
	}
	w.IdempotencyKey.Request[1] = 0
	if _, err := s.Apply(ctx, o, w); !errors.Is(err, ext.ErrKeyReused) {
		t.Errorf("another request with the key: %v", err)
	}
	w.IdempotencyKey = nil
	put.Precondition = ext.Precondition{Revision: ext.Some[ext.Revision](1), Match: ext.Tags{Set: true, Seqs: []ext.Seq{9, 1}}, NoneMatch: ext.Tags{Set: true, Seqs: []ext.Seq{}}}
	put.Keep, put.ExpiresAt, put.Metadata = true, 0, ""
	apply(ext.Op{Kind: ext.Check, Namespace: "toys", Key: "b", Precondition: ext.Precondition{Match: ext.Tags{Set: true, Any: true}}}, put)
	_, err = s.Apply(ctx, o, ext.Write{Ops: []ext.Op{{Kind: ext.Check, Namespace: "toys", Key: "b"}, put}, Now: start, Quota: w.Quota})
	var item *ext.ItemError
	if !errors.As(err, &item) || item.Index != 1 || !errcode.Is(err, errcode.Precondition) {
		t.Errorf("a precondition that does not hold: %v", err)
	}

	reads(t, s, o, put.Key, canonical)
	apply(ext.Op{Kind: ext.Delete, Namespace: "toys", Key: "b"})
	later := start + ext.Moment(ext.ChangesKept.Milliseconds())
	// The fifth change, from the expired record, is a minute younger.
	for kind, want := range map[ext.Swept]int{ext.SweptRecords: 0, ext.SweptChanges: 4, ext.SweptAnswers: 1, ext.SweptTokens: 0} {
		if n, err := s.Sweep(ctx, kind, later, later, 100); err != nil || n != want {
			t.Errorf("Sweep of kind %d: %d, %v, want %d", kind, n, err, want)
		}
	}
	schemasAndInstalls(t, s, o)
}

func reads(t *testing.T, s *postgres.Store, o ext.Owner, key ext.Key, value canonjson.Value) {
	t.Helper()
	ctx := t.Context()
	r, err := s.Get(ctx, o, "toys", key, start+59_999)
	if err != nil || r.Value != value || r.Metadata != `{"m":1}` || r.Revision != 2 || r.Seq != 3 || r.ExpiresAt != start+60_000 {
		t.Errorf("Get: %+v, %v", r, err)
	}
	if _, err := s.Get(ctx, o, "toys", key, start+60_000); !errors.Is(err, ext.ErrNoRecord) {
		t.Errorf("Get at the end: %v", err)
	}
	for _, reverse := range []bool{false, true} {
		page, err := s.List(ctx, o, ext.Query{Namespace: "toys", Limit: 1, Reverse: reverse, Values: true, Now: start})
		if err != nil || len(page.Records) != 1 || !page.More || page.Records[0].Metadata != "" || (page.Records[0].Value == "null") == reverse {
			t.Errorf("List: %+v, %v", page, err)
		}
	}
	all, err := s.Export(ctx, o, ext.ExportQuery{After: ext.Position{Namespace: "toys", Key: "b"}, Limit: 10, Now: start})
	if err != nil || len(all.Records) != 1 || all.Records[0].Value != value {
		t.Errorf("Export: %+v, %v", all, err)
	}
	if audit, err := s.Audit(ctx, o); err != nil || !audit.Right() || audit.Counters.Keys != 2 {
		t.Errorf("Audit: %+v, %v", audit, err)
	}
	page, err := s.ListUsage(ctx, inspection.Span{Tenant: o.Tenant}, 10)
	if err != nil || len(page) != 1 || page[0].Owner != o || page[0].Keys != 2 {
		t.Errorf("ListUsage: %+v, %v", page, err)
	}
	if lost, err := s.Uncounted(ctx, inspection.Span{All: true}, 10); err != nil || len(lost) != 0 {
		t.Errorf("Uncounted: %v, %v", lost, err)
	}
	if n, err := s.Sweep(ctx, ext.SweptRecords, start+60_000, start+60_000, 10); err != nil || n != 1 {
		t.Errorf("Sweep of expired records: %d, %v", n, err)
	}
	feed, err := s.Changes(ctx, o, 2, 10)
	if err != nil || feed.Last != 4 || len(feed.Changes) != 2 || feed.Changes[1] != (ext.Change{
		Seq: 4, Op: ext.ChangeExpire, Namespace: "toys", Key: key, Revision: 2, At: start + 60_000}) {
		t.Errorf("Changes: %+v, %v", feed, err)
	}
	usage, err := s.Usage(ctx, o, start)
	if err != nil || !slices.Equal(usage.Namespaces, []ext.NamespaceUsage{{Namespace: "toys", Keys: 1, Bytes: 6}}) {
		t.Errorf("Usage: %+v, %v", usage, err)
	}
}

func schemasAndInstalls(t *testing.T, s *postgres.Store, o ext.Owner) {
	t.Helper()
	ctx := t.Context()
	const by = "c0000000-0000-4000-8000-000000000001"
	for v := ext.SchemaVersion(1); v <= 2; v++ {
		if _, err := s.Register(ctx, o, ext.Schema{Namespace: "toys", Document: []byte(`{"type":"object"}`), CreatedBy: map[ext.SchemaVersion]string{2: by}[v], CreatedAt: start}, ext.DefaultQuota()); err != nil {
			t.Fatal(err)
		}
		schema, err := s.SetStatus(ctx, o, ext.SchemaID{Namespace: "toys", Version: v}, ext.Active, start+1)
		if err != nil || schema.Version != v || schema.Status != ext.Active || string(schema.Document) != `{"type":"object"}` {
			t.Errorf("SetStatus: %+v, %v", schema, err)
		}
	}
	if _, err := s.SetStatus(ctx, o, ext.SchemaID{Namespace: "toys", Version: 3}, ext.Active, start+1); !errors.Is(err, ext.ErrNoSchema) {
		t.Errorf("SetStatus of an absent version: %v", err)
	}
	if active, err := s.Active(ctx, o, "toys"); err != nil || active.Version != 2 || active.CreatedBy != by {
		t.Errorf("Active: %+v, %v", active, err)
	}
	page, err := s.Schemas(ctx, o, ext.SchemaQuery{Namespace: "toys", Limit: 9})
	if all := page.Schemas; err != nil || len(all) != 2 || all[1].Status != ext.Deprecated || all[1].CreatedBy != "" {
		t.Errorf("Schemas: %+v, %v", all, err)
	}
	in, created, err := s.SetInstall(ctx, o, ext.Registration{
		Tier: "big", Overrides: ext.Overrides{Quota: ext.Quota{Keys: 7}, Until: start + 9},
		Namespaces: map[ext.Namespace]ext.Access{"toys": ext.Read | ext.Modify, "log": ext.Read},
	}, false, start+1)
	if err != nil || !created {
		t.Fatalf("created %t: %v", created, err)
	}
	if err := s.RevokeInstall(ctx, o, start+3); err != nil {
		t.Fatal(err)
	}
	in.RevokedAt, in.UpdatedAt = start+3, start+3
	if got, err := s.Install(ctx, o); err != nil || !reflect.DeepEqual(got, in) {
		t.Errorf("Install: %+v, %v", got, err)
	}
}
