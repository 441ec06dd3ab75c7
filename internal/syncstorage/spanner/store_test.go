package spanner_test

import (
	"context"
	"flag"
	"os"
	"testing"

	"cloud.google.com/go/spanner"

	"holdfast/internal/db/spannerdb"
	"holdfast/internal/errcode"
	"holdfast/internal/suite"
	ss "holdfast/internal/syncstorage"
	backend "holdfast/internal/syncstorage/spanner"
	"holdfast/internal/syncstorage/storetest"
	"holdfast/internal/testdb/spannertest"
)

// TestMain reduces the random tests and runs more tests in parallel, unless flags are set. The emulator is a hundred
// times slower than a database and idle half of the time.
func TestMain(m *testing.M) {
	flag.Parse()
	for name, value := range map[string]string{"rapid.checks": "5", "test.parallel": "8"} {
		if f := flag.Lookup(name); f.Value.String() == f.DefValue {
			if err := f.Value.Set(value); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}

func openDB(t testing.TB, opts spannerdb.Options) *spannerdb.DB {
	t.Helper()
	db, err := spannerdb.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	set, err := backend.Migrations()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Migrate(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	return db
}

func options(t testing.TB) spannerdb.Options {
	t.Helper()
	emulator, database := spannertest.Database(t)
	return spannerdb.Options{EmulatorHost: emulator, Database: database, MaxTransactions: 100}
}

func TestStoreOnSpanner(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness {
		opts := options(t)
		db := openDB(t, opts)
		return storetest.Harness{
			Store: backend.New(db),
			Reap:  func(ctx context.Context, now ss.Timestamp) (int, error) { return reap(ctx, db, now) },
			Faulty: func(t testing.TB, fault func(point string) error) ss.Store {
				opts := opts
				opts.Fault = fault
				db, err := spannerdb.Open(t.Context(), opts)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(db.Close)
				return backend.New(db)
			},
			BatchRecords: 9_984,
			Apart:        true, // the emulator scans whole tables
			Soak: suite.Soak{
				Why: "the emulator takes ten times as long as other engines",
				Cases: []string{
					"Values/Payloads", "Values/IDs", "Preconditions/Table", "Preconditions/Resource", "Merge/Table", "Batches/Large", "Usage/ManyCollections", "Quota/Table",
					"Listing/ClosedUnread", "Paging/WholeInPages", "Paging/UnderWrites", "Sweep/AgainstWritesOverTheExpired",
				},
			},
			Exempt: map[string]string{
				"Sweep/Bounded":        "Spanner removes expired rows itself",
				"Sweep/BatchesInSteps": "Spanner removes expired rows itself",
				"Sweep/Fault":          "Spanner removes expired rows itself",

				"Values/PayloadsOfAnyBytes": "a STRING holds UTF-8, and the protocol allows nothing else",
			},
		}
	})
}

// reap replaces row deletion policies, which the emulator does not implement.
func reap(ctx context.Context, db *spannerdb.DB, now ss.Timestamp) (n int, err error) {
	err = db.Write(ctx, "reap", func(tx *spannerdb.Tx) error {
		n = 0
		for _, table := range []string{"bsos", "batches"} {
			p := spannerdb.Params{"now": now.Time()}
			count := spannerdb.Statement{Name: "reap.count", SQL: `SELECT COUNT(*) FROM ` + table + ` WHERE expiry <= @now`}
			if err := tx.ForEach(count, p, func(r *spanner.Row) error {
				var due int64
				err := r.Columns(&due)
				n += int(due)
				return err
			}); err != nil {
				return err
			}
			remove := spannerdb.Statement{Name: "reap", SQL: `DELETE FROM ` + table + ` WHERE expiry <= @now`}
			if err := tx.Exec(spannerdb.Change{Statement: remove, Params: p, Rows: -1}); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}

func TestPing(t *testing.T) {
	t.Parallel()
	opts := options(t)
	db, err := spannerdb.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	s := backend.New(db)
	if err := s.Ping(t.Context()); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("before the migrations: %v", err)
	}
	o := ss.Owner{UID: 1, FxAUID: "a", FxAKID: "b"}
	if _, err := s.Collections(t.Context(), o); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("a read before the migrations: %v", err)
	}
	openDB(t, opts)
	for range 2 {
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("after the migrations: %v", err)
		}
	}
}
