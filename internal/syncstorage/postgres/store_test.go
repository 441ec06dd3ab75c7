package postgres_test

import (
	"errors"
	"math"
	"testing"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
	"holdfast/internal/suite"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/postgres"
	"holdfast/internal/syncstorage/storetest"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

func TestMain(m *testing.M) { suite.Main(m, "25") }

func open(t testing.TB, opts pgdb.Options) *postgres.Store {
	t.Helper()
	return postgres.New(opened.Postgres(t, opts, postgres.Migrations))
}

// TestStore runs the suite on its own database, because a sweep affects all users.
func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness { return harness(t, testdb.PostgresDatabase(t)) })
}

func TestStoreOnCitus(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness { return harness(t, testdb.CitusDatabase(t)) })
}

func harness(t testing.TB, url string) storetest.Harness {
	return storetest.Harness{
		Store: open(t, pgdb.Options{URL: url, MaxConns: 20}),
		Faulty: func(t testing.TB, fault func(point string) error) ss.Store {
			// The database is already migrated, so that the fault does not affect migrations.
			return postgres.New(opened.Postgres(t, pgdb.Options{URL: url, Fault: fault}, nil))
		},
	}
}

func TestPing(t *testing.T) {
	t.Parallel()
	db := opened.Postgres(t, pgdb.Options{URL: testdb.PostgresDatabase(t)}, nil)
	s := postgres.New(db)
	if _, err := s.Collections(t.Context(), ss.Owner{UID: 1}); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("a read before the migrations: %v", err)
	}
	opened.WantPing(t, db, postgres.Migrations, s.Ping)
}

// TestWithoutPreparedStatements uses the modes that a pooler may require. The driver then sends argument types itself,
// or sends text.
func TestWithoutPreparedStatements(t *testing.T) {
	testdb.CheckOnly(t, "it repeats every step for poolers")
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	for i, mode := range []string{"cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			s := open(t, pgdb.Options{URL: testdb.WithParameter(t, url, "default_query_exec_mode", mode)})
			everyStep(t, s, ss.Owner{UID: int64(1 + i)})
		})
	}
}

func everyStep(t *testing.T, s *postgres.Store, o ss.Owner) {
	t.Helper()
	ctx := t.Context()
	w := ss.Write{Collection: "toys", Now: 1_700_000_000_120, MaxNames: 10, Quota: ss.Quota{User: 100, Enforce: true}}
	limits := ss.BatchLimits{Records: 10, Bytes: 100}
	u := ss.Update{ID: "a", Payload: ss.Some([]byte("\x00\xff'")), SortIndex: ss.Some[int64](-1), TTL: ss.Some[int64](60)}
	must := func(step string) func(ss.Written, error) {
		return func(_ ss.Written, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", step, err)
			}
		}
	}
	must("Put")(s.Put(ctx, o, w, u))
	must("Post")(s.Post(ctx, o, w, []ss.Update{u, {ID: "b"}, {ID: "c", Payload: ss.Some([]byte(nil))}}))
	must("Append")(s.Append(ctx, o, w, ss.BatchPart{ID: batch, Opens: true, Updates: []ss.Update{u}, Limits: limits}))
	must("Commit")(s.Commit(ctx, o, w, ss.BatchPart{ID: batch, Updates: []ss.Update{{ID: "d"}}, Limits: limits}))
	big := ss.Update{ID: "a", Payload: ss.Some(make([]byte, 200))}
	if _, err := s.Put(ctx, o, w, big); !errors.Is(err, ss.ErrQuota) {
		t.Errorf("over the quota: %v", err)
	}
	b, err := s.Get(ctx, o, ss.Request{Collection: "toys", Now: w.Now}, "a")
	if err != nil || string(b.Payload) != "\x00\xff'" || b.SortIndex.Value != -1 || b.Modified != w.Now+2*ss.Tick || b.Expiry != b.Modified+60_000 {
		t.Errorf("Get: %+v, %v", b, err)
	}
	for _, sort := range []ss.Sort{ss.Newest, ss.Oldest, ss.ByIndex} {
		q := ss.Query{Collection: "toys", Full: true, Sort: sort, Limit: ss.Some(2), IDs: []string{"a", "b", "c"},
			Newer: ss.Some[ss.Timestamp](1), Older: ss.Some(w.Now + 1000), Now: w.Now}
		l, err := s.List(ctx, o, &q)
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		if l.Records != 2 || !l.More {
			t.Errorf("sort %d: %d records, more %v", sort, l.Records, l.More)
		}
		l.Close()
	}
	l, err := s.List(ctx, o, &ss.Query{Collection: "toys", Limit: ss.Some(math.MaxInt), Offset: ss.Offset{Skip: math.MaxInt32}, Now: w.Now})
	if err != nil || l.Records != 0 || l.More {
		t.Errorf("List far after the end: %+v, %v", l, err)
	}
	must("DeleteBSO")(s.DeleteBSO(ctx, o, w, "b"))
	must("DeleteBSOs")(s.DeleteBSOs(ctx, o, w, []string{"c"}))
	usage, err := s.Usage(ctx, o, w.Now+120_000)
	if err != nil || len(usage.Collections) != 1 || usage.Collections[0].Records != 1 {
		t.Errorf("Usage: %+v, %v", usage, err)
	}
	if n, err := s.Sweep(ctx, w.Now+120_000, 10); err != nil || n != 1 {
		t.Errorf("Sweep: %d, %v", n, err)
	}
	must("DeleteCollection")(s.DeleteCollection(ctx, o, w))
	if err := s.DeleteAll(ctx, o, ss.Precondition{}); err != nil {
		t.Errorf("DeleteAll: %v", err)
	}
	if cs, err := s.Collections(ctx, o); err != nil || cs.Modified != 0 || len(cs.Stamps) != 0 {
		t.Errorf("Collections: %+v, %v", cs, err)
	}
}
