package app_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/copying"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/rows"
	"holdfast/internal/db/spannerdb"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
	syncpg "holdfast/internal/syncstorage/postgres"
	syncspanner "holdfast/internal/syncstorage/spanner"
	syncsqlite "holdfast/internal/syncstorage/sqlite"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

var sources = map[string]func(testing.TB) string{
	"sqlite": sqliteURL, "postgres": testdb.PostgresDatabase, "citus": testdb.CitusDatabase, "spanner": spannerURL,
}

// withTriggers returns the sources except Spanner, which lacks triggers.
func withTriggers() map[string]func(testing.TB) string {
	all := maps.Clone(sources)
	delete(all, "spanner")
	return all
}

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

func syncCopy(t *testing.T, from func(testing.TB) string) (*copying.Copy, ss.Store) {
	t.Helper()
	source := from(t)
	c := newCopy(t, "syncstorage", source, sqliteURL(t))
	c.Owners = fixedOwners{{Number: 1, Keys: [2]string{"a", "b"}, Current: 1}}
	store := syncStore(t, source)
	overwrite(t, store, 1)
	return c, store
}

func overwrite(t *testing.T, store ss.Store, times int) {
	t.Helper()
	for range times {
		if err := putRecord(t, store, "a"); err != nil {
			t.Fatal(err)
		}
	}
}

func putRecord(t testing.TB, store ss.Store, id string) error {
	t.Helper()
	w := ss.Write{Collection: "tabs", Now: 1_700_000_000_000, MaxNames: 9}
	_, err := store.Put(t.Context(), ss.Owner{UID: 1, FxAUID: "a", FxAKID: "b"}, w, ss.Update{ID: id, Payload: ss.Some([]byte("x"))})
	return err
}

// TestCopyCompactsTheLog checks that before each pass, a key has as many change log entries after many writes as after
// a single write.
func TestCopyCompactsTheLog(t *testing.T) {
	t.Parallel()
	const writes, most = 20, 3 // entries: a record, its collection, and collection 0
	for name, from := range sources {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, store := syncCopy(t, from)
			c.CompactAfter, c.CompactEvery = 10, time.Hour
			written := false
			c.BeforeStep = func(point string) error {
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
	}
}

func TestCopyCompactsMeanwhile(t *testing.T) {
	t.Parallel()
	for name, from := range sources {
		t.Run(name, func(t *testing.T) {
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
			c.BeforeStep = func(point string) error {
				for point == "span" {
					select {
					case <-compacted:
						return nil
					default:
						overwrite(t, store, 20) // again, in case a compaction deleted only as many entries as were added
					}
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

func addRecords(t *testing.T, store ss.Store, from, n int) (isRefused bool) {
	t.Helper()
	for i := range n {
		err := putRecord(t, store, fmt.Sprint(from+i))
		switch {
		case errcode.Is(err, errcode.Unavailable):
			isRefused = true
		case err != nil:
			t.Fatal(err)
		}
	}
	return isRefused
}

func addInPasses(t *testing.T, c *copying.Copy, store ss.Store) (isRefused *bool) {
	t.Helper()
	written := 0
	isRefused = new(bool)
	c.BeforeStep = func(point string) error {
		if point == "pass" && !*isRefused {
			*isRefused = addRecords(t, store, written, 5)
			written += 5
		}
		return nil
	}
	return isRefused
}

// TestCopyFinishesWithin checks that a service becomes read-only when the time is up, even if rows change faster than
// they are copied. No acknowledged write may be lost.
func TestCopyFinishesWithin(t *testing.T) {
	t.Parallel()
	for name, from := range sources {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, store := syncCopy(t, from)
			c.KeysOfPass, c.FinishWithin = 3, 1
			addInPasses(t, c, store)
			var lines []string
			c.Report = func(line string) { lines = append(lines, line) }
			if err := c.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(lines, func(line string) bool {
				return strings.Contains(line, "while the service is read-only, to end in time")
			}) {
				t.Errorf("no report of an early read-only: %q", lines)
			}
			wantEqual(t, c)
		})
	}
}

func TestCopySlowsWriters(t *testing.T) {
	t.Parallel()
	for name, from := range withTriggers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, store := syncCopy(t, from)
			c.KeysOfPass, c.FinishWithin, c.PaceEvery = 3, time.Hour, 1
			isRefused, isSlow := addInPasses(t, c, store), false
			c.Estimate = func(e copying.Estimate) { isSlow = isSlow || e.Refused > 0 }
			if err := c.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !*isRefused || !isSlow {
				t.Errorf("writes were refused: %t, by the estimate: %t; want both", *isRefused, isSlow)
			}
			wantEqual(t, c)
		})
	}
}

// TestSlow checks that Slow refuses writes to a service, except to its leases, until it ends.
func TestSlow(t *testing.T) {
	t.Parallel()
	for name, from := range withTriggers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := from(t)
			one := openOne(t, "buckets", source)
			h, db := bucketsHarness(t, source), one.Database.Rows(nil)
			u := newBucketsUser(t, h)
			if err := db.Log(t.Context(), "buckets", one.Service.Tables); err != nil {
				t.Fatal(err)
			}
			for _, tc := range []struct {
				refused time.Duration
				want    errcode.Code
			}{{rows.SlowPeriod, errcode.Unavailable}, {0, 0}} {
				if err := db.Slow(t.Context(), "buckets", tc.refused); err != nil {
					t.Fatal(err)
				}
				if err := u.put("a"); err != nil && !errcode.Is(err, tc.want) || err == nil && tc.want != 0 {
					t.Errorf("a write while %v of each period are refused: %v", tc.refused, err)
				}
				if _, err := h.Leases.Lease(t.Context(), buckets.Lease{Name: "maintenance", Holder: "a", Left: 30e9}); err != nil {
					t.Errorf("a lease while %v of each period are refused: %v", tc.refused, err)
				}
			}
		})
	}
}

func inLog(t *testing.T, c *copying.Copy, name string) (n int64, state string) {
	t.Helper()
	if err := c.Source.Rows(c.Owners).View(t.Context(), func(v rows.View) (err error) {
		if n, err = v.Logged(c.Service); err != nil {
			return err
		}
		state, err = v.State(name)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n, state
}

// TestCopyLimitsTheLog checks that a copy slows writers while the change log exceeds half of its limit. At the limit
// the copy ends, and the service continues without a log.
func TestCopyLimitsTheLog(t *testing.T) {
	t.Parallel()
	for name, from := range sources {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, store := syncCopy(t, from)
			records := 25
			passes, states := 0, map[int]string{}
			c.BeforeStep = func(point string) error {
				if point == "pass" {
					if _, states[passes] = inLog(t, c, rows.SlowOf(c.Service)); passes == 0 {
						addRecords(t, store, 0, records)
					}
					passes++
				}
				return nil
			}
			c.MaxChanges, c.CompactEvery = 10, time.Hour
			if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "--max-changes") {
				t.Fatalf("%d changes with a limit of %d: %v", records, c.MaxChanges, err)
			}
			if isRefused := addRecords(t, store, 100, 3); isRefused {
				t.Error("a write was refused after the copy had ended")
			}
			if n, _ := inLog(t, c, c.Service); n > 0 {
				t.Errorf("the log has %d entries after the copy has ended", n)
			}
			passes, c.MaxChanges = 0, 40 // a pass compacts the log to an entry per record, and 2 others
			if err := c.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if name != "spanner" && (states[0] != "" || states[1] == "" || states[1] == "0" || states[2] != "0") {
				t.Errorf("refused parts before and after a pass with %d changes, and at last: %q, %q and %q; want none, some and 0", records, states[0], states[1], states[2])
			}
			wantEqual(t, c)
		})
	}
}

// skipEntries advances the log's sequence, so that the next entry is the last that KeepLog allows.
var skipEntries = map[string]string{
	"sqlite":   `UPDATE sqlite_sequence SET seq = seq + 4999999 WHERE name = 'copy_log'`,
	"postgres": `SELECT setval('copy_log_id_seq', last_value + 4999999) FROM copy_log_id_seq`,
	"citus": `SELECT setval('copy_log_id_seq', last_value + 4999999) FROM copy_log_id_seq;
		SELECT run_command_on_workers('SELECT setval(''copy_log_id_seq'', last_value + 4999999) FROM copy_log_id_seq')`,
}

// TestAbandonedLog checks that an abandoned copy's log ends before it fills the disk. Writes continue, and the copy
// starts again.
func TestAbandonedLog(t *testing.T) {
	t.Parallel()
	for name, skip := range skipEntries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, store := syncCopy(t, sources[name])
			isFirst := true
			c.BeforeStep = func(point string) error {
				if point == "pass" && isFirst {
					isFirst = false
					return errCrash
				}
				return nil
			}
			if err := c.Run(t.Context()); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			overwrite(t, store, 1)
			before, _ := inLog(t, c, c.Service)
			url := c.Source.Target.URL
			if name == "sqlite" {
				url = "sqlite:" + c.Source.Target.Path
			}
			execute(t, url, skip)
			overwrite(t, store, 3)
			after, _ := inLog(t, c, c.Service)
			if before == 0 || after > before+3 { // plus the last write
				t.Errorf("the log has %d entries, and %d after writes at its end; want some, and no more", before, after)
			}
			if err := c.Source.Rows(nil).KeepLog(t.Context(), c.Service); !errors.Is(err, rows.ErrLapsed) {
				t.Errorf("KeepLog of a log that has ended: %v", err)
			}
			var lines []string
			c.Report = func(line string) { lines = append(lines, line) }
			if err := c.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "starting again") }) {
				t.Errorf("the copy has not started again: %q", lines)
			}
			wantEqual(t, c)
		})
	}
}
