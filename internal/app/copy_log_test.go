package app_test

import (
	"strings"
	"testing"
	"time"

	"holdfast/internal/app"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/spannerdb"
	"holdfast/internal/db/sqlitedb"
	ss "holdfast/internal/syncstorage"
	syncpg "holdfast/internal/syncstorage/postgres"
	syncspanner "holdfast/internal/syncstorage/spanner"
	syncsqlite "holdfast/internal/syncstorage/sqlite"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// sources are the engines that a copy reads from.
var sources = map[string]func(testing.TB) string{
	"sqlite": sqliteURL, "postgres": testdb.PostgresDatabase, "citus": testdb.CitusDatabase, "spanner": spannerURL,
}

// syncStore opens the store of a database.
func syncStore(t testing.TB, url string) ss.Store {
	t.Helper()
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		return syncsqlite.New(opened.SQLite(t, sqlitedb.Options{Path: path}, nil))
	}
	if name, ok := strings.CutPrefix(url, "spanner://"); ok {
		db, err := spannerdb.Open(t.Context(), spannerdb.Options{EmulatorHost: testdb.Spanner(t), Database: name})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(db.Close)
		return syncspanner.New(db)
	}
	return syncpg.New(opened.Postgres(t, pgdb.Options{URL: url}, nil))
}

// syncCopy returns a copy of sync storage to SQLite, and the store of its source with a record of
// user 1.
func syncCopy(t *testing.T, from func(testing.TB) string) (*app.Copy, ss.Store) {
	t.Helper()
	source := from(t)
	c := newCopy(t, "syncstorage", source, sqliteURL(t))
	c.Owners = fixedOwners{{Number: 1, Keys: [2]string{"a", "b"}, Current: 1}}
	store := syncStore(t, source)
	overwrite(t, store, 1)
	return c, store
}

// overwrite writes a record again and again.
func overwrite(t *testing.T, store ss.Store, times int) {
	t.Helper()
	for range times {
		w := ss.Write{Collection: "tabs", Now: 1_700_000_000_000, MaxNames: 9}
		if _, err := store.Put(t.Context(), ss.Owner{UID: 1, FxAUID: "a", FxAKID: "b"}, w, ss.Update{ID: "a", Payload: ss.Some([]byte("x"))}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCopyCompactsTheLog: a key that is written again and again leaves as many entries in the log
// of changes as one that is written once, before each pass and while rows are copied.
func TestCopyCompactsTheLog(t *testing.T) {
	t.Parallel()
	const writes, most = 20, 3 // entries: a record, its collection, and collection 0
	for name, from := range sources {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, store := syncCopy(t, from)
			c.CompactAfter, c.CompactEvery = 10, time.Hour
			written := false
			c.Fault = func(point string) error {
				if point == "pass" && !written {
					written = true
					overwrite(t, store, writes)
				}
				return nil
			}
			compactions := 0
			c.Compacted = func(before, after int64) {
				if compactions++; before < writes || after > most {
					t.Errorf("%d entries before a compaction, %d after; want at least %d, at most %d", before, after, writes, most)
				}
			}
			if err := c.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if compactions != 1 {
				t.Errorf("the log was compacted %d times, want once", compactions)
			}
			wantEqual(t, c)
		})
		t.Run(name+" during a span", func(t *testing.T) {
			t.Parallel()
			c, store := syncCopy(t, from)
			c.CompactAfter, c.CompactEvery = 10, time.Millisecond
			compacted, isSignaled := make(chan struct{}), false
			c.Compacted = func(int64, int64) {
				if !isSignaled {
					isSignaled = true
					close(compacted)
				}
			}
			c.Fault = func(point string) error {
				if point == "span" {
					overwrite(t, store, writes)
					<-compacted
				}
				return nil
			}
			if err := c.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantEqual(t, c)
		})
	}
}
