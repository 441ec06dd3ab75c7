package app_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdfast/internal/app"
	"holdfast/internal/copying"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/rows"
	"holdfast/internal/db/spannerdb"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	exttest "holdfast/internal/extstorage/storetest"
	ss "holdfast/internal/syncstorage"
	syncpg "holdfast/internal/syncstorage/postgres"
	syncspanner "holdfast/internal/syncstorage/spanner"
	syncsqlite "holdfast/internal/syncstorage/sqlite"
	synctest "holdfast/internal/syncstorage/storetest"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/spannertest"
)

func spannerURL(t testing.TB) string {
	_, name := spannertest.Name(t)
	return "spanner://" + name
}

type fixedOwners []rows.Owner

func (f fixedOwners) After(_ context.Context, number int64, n int) (all []rows.Owner, err error) {
	for _, o := range f {
		if o.Number > number && len(all) < n {
			all = append(all, o)
		}
	}
	return all, nil
}

func (f fixedOwners) Find(_ context.Context, numbers []int64) (all []rows.Owner, err error) {
	for _, o := range f {
		if slices.Contains(numbers, o.Number) {
			all = append(all, o)
		}
	}
	return all, nil
}

// moving is a copy that waits at each point for the next step.
type moving struct {
	copy          *copying.Copy
	reached, ends chan error // ends: a run's result; nil while the copy does not run
	goOn          chan error
	done          bool
	crashIn       int // points while the service is read-only
}

func openMoving(t *testing.T, rt *rapid.T, name string, from, to func(testing.TB) string, owners rows.Owners) (m *moving, source, target string) {
	t.Helper()
	w := walk{t, rt}
	source, target = from(w), to(w)
	var ones []*app.One
	for _, url := range []string{source, target} {
		cfg, _, err := app.Load(onAllEngines(), "", databaseEnv(t, name, url))
		if err != nil {
			rt.Fatal(err)
		}
		one, err := app.OpenOne(rt.Context(), name, app.Options{Config: cfg, Data: w.TempDir(), LogTo: io.Discard, Mode: app.ModeCopyWrite})
		if err != nil {
			rt.Fatal(err)
		}
		rt.Cleanup(func() {
			if err := one.Close(); err != nil {
				rt.Error(err)
			}
		})
		if _, err := one.Database.Migrate(rt.Context()); err != nil {
			rt.Fatal(err)
		}
		ones = append(ones, one)
	}
	m = &moving{
		copy:    &copying.Copy{Service: name, Groups: ones[0].Service.Tables, Source: ones[0].Database, Target: ones[1].Database, Owners: owners},
		reached: make(chan error), goOn: make(chan error),
	}
	m.copy.KeysOfPass, m.copy.CompactAfter = 3, 2 // so that passes compact the log and see parts of a write
	closed := false
	m.copy.BeforeStep = func(point string) error {
		if closed {
			if m.crashIn--; m.crashIn == 0 {
				closed = false
				return errCrash
			}
			closed = point != "prolong"
			return nil
		}
		m.reached <- nil
		err := <-m.goOn
		closed = point == "close" && err == nil
		return err
	}
	rt.Cleanup(func() {
		for m.ends != nil {
			m.run(rt, errCrash)
		}
	})
	return m, source, target
}

// run starts or resumes the copy until the next point or its end, and reports whether it is complete.
func (m *moving) run(rt *rapid.T, with error) bool {
	if m.ends == nil {
		m.ends = make(chan error, 1)
		go func() { m.ends <- m.copy.Run(context.Background()) }()
	} else {
		m.goOn <- with
	}
	select {
	case <-m.reached:
		return false
	case err := <-m.ends:
		m.ends = nil
		if err != nil && !errors.Is(err, errCrash) {
			rt.Fatalf("the copy: %v", err)
		}
		return err == nil
	}
}

// step copies a part of the data, or all of the rest. It reports whether the target is complete.
func (m *moving) step(rt *rapid.T, all bool) (complete bool) {
	if m.done {
		if !all {
			rt.Skip("moved already")
		}
		return false
	}
	for {
		var with error
		m.crashIn = 0
		if !all {
			if rapid.IntRange(0, 3).Draw(rt, "crash") == 0 {
				with = errCrash
			}
			m.crashIn = rapid.IntRange(0, 6).Draw(rt, "crash in the last pass")
		}
		if m.done = m.run(rt, with); m.done || !all {
			return m.done
		}
	}
}

// TestSyncMoves takes random steps on a store before, during and after a copy.
func TestSyncMoves(t *testing.T) {
	t.Parallel()
	for _, pair := range []struct {
		name     string
		from, to func(testing.TB) string
	}{
		{"sqlite to postgres", sqliteURL, testdb.PostgresDatabase},
		{"postgres to sqlite", testdb.PostgresDatabase, sqliteURL},
		{"sqlite to spanner", sqliteURL, spannerURL},
		{"spanner to postgres", spannerURL, testdb.PostgresDatabase},
		{"spanner to sqlite", spannerURL, sqliteURL},
		{"postgres to spanner", testdb.PostgresDatabase, spannerURL},
		{"spanner to spanner", spannerURL, spannerURL},
		{"citus to sqlite", testdb.CitusDatabase, sqliteURL},
	} {
		t.Run(pair.name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(pair.name, "spanner") || strings.Contains(pair.name, "citus") {
				testdb.SoakOnly(t, "TestSyncMoves of SQLite and PostgreSQL, and TestCopy of the others, have shown the same")
			}
			synctest.RunMoving(t, func(rt *rapid.T, o ss.Owner) (synctest.Harness, func(*rapid.T, bool) *synctest.Harness) {
				owners := fixedOwners{{Number: o.UID, Keys: [2]string{o.FxAUID, o.FxAKID}, Current: o.UID}}
				m, source, target := openMoving(t, rt, "syncstorage", pair.from, pair.to, owners)
				return syncHarness(t, rt, source), func(rt *rapid.T, all bool) *synctest.Harness {
					if !m.step(rt, all) {
						return nil
					}
					if err := syncHarness(t, rt, source).Store.SetQuota(rt.Context(), o, ss.Some[int64](1)); !errcode.Is(err, errcode.Unavailable) {
						rt.Errorf("a write to the source: %v", err)
					}
					n, err := m.copy.Verify(rt.Context(), func(d copying.Difference) { rt.Error(d) })
					if err != nil || n == 0 {
						rt.Errorf("compared %d rows: %v", n, err)
					}
					h := syncHarness(t, rt, target)
					return &h
				}
			})
		})
	}
}

func syncHarness(t *testing.T, rt *rapid.T, url string) (h synctest.Harness) {
	t.Helper()
	kind, rest, _ := strings.Cut(url, ":")
	switch kind {
	case "sqlite":
		db, err := sqlitedb.Open(rt.Context(), sqlitedb.Options{Path: filepath.Clean(rest)})
		if err != nil {
			rt.Fatal(err)
		}
		rt.Cleanup(func() { _ = db.Close() })
		return synctest.Harness{Store: syncsqlite.New(db)}
	case "spanner":
		db, err := spannerdb.Open(rt.Context(), spannerdb.Options{EmulatorHost: testdb.Spanner(t), Database: strings.TrimPrefix(rest, "//")})
		if err != nil {
			rt.Fatal(err)
		}
		rt.Cleanup(db.Close)
		return synctest.Harness{
			Store: syncspanner.New(db), Exempt: map[string]string{"Sweep": "Spanner removes expired records at any time"},
		}
	}
	db, err := pgdb.Open(rt.Context(), pgdb.Options{URL: url, MaxConns: 3})
	if err != nil {
		rt.Fatal(err)
	}
	rt.Cleanup(db.Close)
	return synctest.Harness{Store: syncpg.New(db)}
}

// walk cleans up after each random walk, so that thousands of walks need no more connections, databases and files than
// one.
type walk struct {
	testing.TB
	rt *rapid.T
}

func (w walk) Cleanup(fn func()) { w.rt.Cleanup(fn) }

func (w walk) TempDir() string {
	dir, err := os.MkdirTemp("", "holdfast-walk-")
	if err != nil {
		w.rt.Fatal(err)
	}
	w.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			w.rt.Error(err)
		}
	})
	return dir
}

func TestExtMoves(t *testing.T) {
	t.Parallel()
	for _, pair := range []struct {
		name     string
		from, to func(testing.TB) string
	}{
		{"sqlite to postgres", sqliteURL, testdb.PostgresDatabase},
		{"postgres to sqlite", testdb.PostgresDatabase, sqliteURL},
	} {
		t.Run(pair.name, func(t *testing.T) {
			t.Parallel()
			exttest.RunMoving(t, func(rt *rapid.T) (exttest.Harness, func(*rapid.T, bool) *exttest.Harness) {
				m, source, target := openMoving(t, rt, "extstorage", pair.from, pair.to, nil)
				return extHarness(walk{t, rt}, source), func(rt *rapid.T, all bool) *exttest.Harness {
					if !m.step(rt, all) {
						return nil
					}
					h := extHarness(walk{t, rt}, target)
					return &h
				}
			})
		})
	}
}
