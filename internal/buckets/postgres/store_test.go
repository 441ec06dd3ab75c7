package postgres_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/postgres"
	"holdfast/internal/buckets/storetest"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/outbox"
	"holdfast/internal/suite"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

func TestMain(m *testing.M) { suite.Main(m, "25") }

// TestStore uses its own database, because claims see the garbage of every account.
func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness { return harness(t, testdb.PostgresDatabase, nil) })
}

func TestStoreOnCitus(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness { return harness(t, testdb.CitusDatabase, nil) })
}

// TestStoreBehindPgBouncer uses transaction pooling with more callers than connections.
func TestStoreBehindPgBouncer(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness {
		h := harness(t, func(t testing.TB) string {
			through := testdb.PgBouncer(t, testdb.PostgresDatabase(t), 4)
			return testdb.WithParameter(t, through, "default_query_exec_mode", "exec")
		}, nil)
		h.Soak = suite.Soak{Why: "the other groups behave the same through a pooler", But: []string{"Buckets", "Objects", "Conditions"}}
		h.Exempt = map[string]string{"References/Stopped": "it cancels a statement, which crashes PgBouncer 1.18"}
		return h
	})
}

func withFault(o pgdb.Options, fault func(point string) error) pgdb.Options {
	o.Fault = fault
	return o
}

func harness(t testing.TB, create func(testing.TB) string, fault func(point string) error) storetest.Harness {
	t.Helper()
	url := create(t)
	opened.Postgres(t, pgdb.Options{URL: url}, postgres.Migrations) // before faults begin
	// A busy Citus coordinator may need longer than the defaults.
	options := pgdb.Options{URL: url, MaxConns: 20, ConnectTimeout: testdb.Patient(2 * time.Minute), StatementTimeout: testdb.Patient(2 * time.Minute)}
	h := harnessOn(opened.Postgres(t, withFault(options, fault), nil))
	h.Second = func(t testing.TB) buckets.Store {
		return postgres.New(opened.Postgres(t, options, nil))
	}
	h.Faulty = func(t testing.TB, fault func(point string) error) storetest.Harness {
		return harness(t, create, fault)
	}
	return h
}

func harnessOn(db *pgdb.DB) storetest.Harness {
	s := postgres.New(db)
	return storetest.Harness{
		Store: s, Versions: s, Uploads: s, Collector: s, References: s, Counters: s, Accounts: s, Nodes: s, Leases: s, Damages: s, Scrubs: s, Lifecycles: s, Events: s,
		Appended: func(t suite.TB, owner buckets.AccountID) []storetest.Appended {
			return appended(t, s.Outbox("hook"), owner)
		},
		Damage: func(t testing.TB, sql string) {
			if _, where, ok := strings.Cut(sql, " WHERE "); ok && strings.Contains(sql, "manta_bucket_usage") { // each counter has several slots
				sql += ` AND slot = (SELECT min(slot) FROM manta_bucket_usage WHERE ` + where + `)`
			}
			if n, err := db.Exec(t.Context(), pgdb.Statement{Name: "damage", SQL: sql}); err != nil || n != 1 {
				t.Fatalf("%d rows changed: %v", n, err)
			}
		},
	}
}

func appended(t suite.TB, b outbox.Box, owner buckets.AccountID) (all []storetest.Appended) {
	t.Helper()
	events, _, err := b.Next(t.Context(), outbox.Query{Parts: 1<<outbox.Partitions - 1, Limit: 100_000, Now: time.Now()})
	suite.Must(t, "Next", err)
	for _, e := range events {
		if e.Owner == string(owner) {
			all = append(all, storetest.Appended{Destination: e.Topic, Stream: e.Stream, Key: e.Key, Seq: e.Seq, Payload: string(e.Payload), At: buckets.At(e.At)})
		}
	}
	slices.SortStableFunc(all, func(a, b storetest.Appended) int { return cmp.Compare(a.Seq, b.Seq) })
	return all
}

func TestPing(t *testing.T) {
	t.Parallel()
	db := opened.Postgres(t, pgdb.Options{URL: testdb.PostgresDatabase(t)}, nil)
	opened.WantPing(t, db, postgres.Migrations, postgres.New(db).Ping)
}
