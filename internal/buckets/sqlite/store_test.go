package sqlite_test

import (
	"cmp"
	"slices"
	"sync"
	"testing"
	"time"

	zombiezen "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/sqlite"
	"holdfast/internal/buckets/storetest"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/outbox"
	"holdfast/internal/suite"
	"holdfast/internal/testdb/opened"
)

func harness(t testing.TB, fault func(string) error) storetest.Harness {
	t.Helper()
	h := harnessOn(opened.SQLite(t, sqlitedb.Options{Fault: fault}, sqlite.Migrations))
	h.Faulty = harness
	return h
}

func harnessOn(db *sqlitedb.DB) storetest.Harness {
	s := sqlite.New(db)
	return storetest.Harness{
		Store: s, Versions: s, Uploads: s, Collector: s, References: s, Counters: s, Accounts: s, Nodes: s, Leases: s, Damages: s, Scrubs: s, Lifecycles: s, Events: s,
		Appended: func(t suite.TB, owner buckets.AccountID) []storetest.Appended {
			return appended(t, s.Outbox("hook"), owner)
		},
		Damage: func(t testing.TB, sql string) {
			err := db.Write(t.Context(), "damage", func(c *zombiezen.Conn) error { return sqlitex.Execute(c, sql, nil) })
			if err != nil {
				t.Fatal(err)
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
	db := opened.SQLite(t, sqlitedb.Options{}, nil)
	opened.WantPing(t, db, sqlite.Migrations, sqlite.New(db).Ping)
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness { return harness(t, nil) })
}

// TestCachedBucket checks that old settings are never read after a change, even with concurrent reads.
func TestCachedBucket(t *testing.T) {
	t.Parallel()
	s := harness(t, nil).Store
	ctx, owner := t.Context(), buckets.AccountID(buckets.NewUUID())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.(*sqlite.Store).CreateAccount(ctx, buckets.Account{ID: owner, Name: "main"}))
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_, _ = s.Bucket(ctx, owner, "photos")
				}
			}
		})
	}
	for i := range 20 {
		ref := buckets.BucketRef{Name: "photos", ID: buckets.BucketID(buckets.NewUUID())}
		_, err := s.CreateBucket(ctx, owner, ref, 1)
		must(err)
		for _, public := range []bool{true, false, true} {
			must(s.SetBucket(ctx, owner, ref, buckets.SettingsChange{PublicRead: &public}))
			b, err := s.Bucket(ctx, owner, "photos")
			must(err)
			if b.ID != ref.ID || b.Settings.PublicRead != public {
				t.Fatalf("bucket %d is %+v, want the ID %s and public %v", i, b, ref.ID, public)
			}
		}
		must(s.DeleteBucket(ctx, owner, ref, 2))
		if _, err := s.Bucket(ctx, owner, "photos"); err != buckets.ErrNoBucket {
			t.Fatalf("bucket %d was deleted: %v", i, err)
		}
	}
	close(done)
	readers.Wait()
}
