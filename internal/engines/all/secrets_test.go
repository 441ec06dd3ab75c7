//test:unraced compiling gRPC for the race detector takes a minute
//test:check linking all engines takes seconds

package all_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"holdfast/internal/conf/settings"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/migrate"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/engines/postgres"
	"holdfast/internal/engines/spanner"
	"holdfast/internal/obs"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/spannertest"
)

// empty returns backends on all engines, whose stores are nil.
func empty(history func() (migrate.Set, error)) (all []engine.Backend[any]) {
	onSQLite := engine.OnSQLite[any](history, func(*sqlitedb.DB, engine.StoreOptions) any { return nil })
	for _, d := range []engine.Driver{onSQLite.Driver, postgres.Driver(), spanner.Driver()} {
		all = append(all, engine.Backend[any]{Driver: d, History: history, New: func(any, engine.StoreOptions) any { return nil }})
	}
	return all
}

func openAt(t *testing.T, service, url, emulator string) *engine.Database {
	t.Helper()
	none := func() (migrate.Set, error) { return migrate.Set{Service: service}, nil }
	s := settings.DefaultDatabase()
	s.DatabaseURL = url
	o := &engine.Opener{Data: t.TempDir(), Create: true, Metrics: obs.NewMetrics("test", "")}
	_, db, err := engine.Open(t.Context(), o, service, engine.Settings{Database: s, Spanner: engine.SpannerSettings{EmulatorHost: emulator}}, empty(none)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// TestSecretHashes checks that each engine stores a service's hashes, and that a single concurrent writer wins.
func TestSecretHashes(t *testing.T) {
	t.Parallel()
	for name, create := range map[string]func(t *testing.T) (url, emulator string){
		"sqlite":   func(t *testing.T) (string, string) { return "sqlite:" + filepath.Join(testdb.SQLite(t), "test.db"), "" },
		"postgres": func(t *testing.T) (string, string) { return testdb.PostgresDatabase(t), "" },
		"spanner": func(t *testing.T) (string, string) {
			emulator, database := spannertest.Database(t)
			return "spanner://" + database, emulator
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, emulator := create(t)
			processes := []*engine.Database{openAt(t, "a", url, emulator), openAt(t, "a", url, emulator), openAt(t, "a", url, emulator)}
			migrateTogether(t, processes)
			replaceHashes(t, processes)

			other := openAt(t, "b", url, emulator)
			if applied, err := other.Migrate(t.Context()); err != nil || len(applied) != 0 {
				t.Errorf("another service in the database applied %d migrations, %v", len(applied), err)
			}
			if hashes, err := other.SecretHashes(t.Context()); err != nil || len(hashes) != 0 {
				t.Errorf("another service sees %v, %v", hashes, err)
			}
		})
	}
}

func migrateTogether(t *testing.T, processes []*engine.Database) {
	t.Helper()
	db := processes[0]
	if hashes, err := db.SecretHashes(t.Context()); err != nil || hashes != nil {
		t.Fatalf("before the migration: %v, %v", hashes, err)
	}
	if pending, err := db.Pending(t.Context()); err != nil || len(pending) == 0 {
		t.Errorf("before the migration %d are pending, %v", len(pending), err)
	}
	for _, err := range testdb.Concurrently(len(processes), func(i int) error {
		_, err := processes[i].Migrate(t.Context())
		return err
	}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if hashes, err := db.SecretHashes(t.Context()); err != nil || hashes == nil || len(hashes) != 0 {
		t.Fatalf("after the migration: %v, %v", hashes, err)
	}
}

func replaceHashes(t *testing.T, processes []*engine.Database) {
	t.Helper()
	db := processes[0]
	race(t, processes, "", "first")
	hashes, err := db.SecretHashes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	race(t, processes, hashes["a.x"], "second")
	if changed, err := db.SetSecretHash(t.Context(), "a.x", hashes["a.x"], "late"); err != nil || changed {
		t.Errorf("replaced an outdated hash: %v, %v", changed, err)
	}
	if changed, err := db.SetSecretHash(t.Context(), "a.y", "", "other"); err != nil || !changed {
		t.Errorf("another setting: %v, %v", changed, err)
	}
	if hashes, err = db.SecretHashes(t.Context()); err != nil || len(hashes) != 2 || hashes["a.y"] != "other" {
		t.Errorf("both: %v, %v", hashes, err)
	}
}

func race(t *testing.T, processes []*engine.Database, old, name string) {
	t.Helper()
	won := make([]bool, len(processes))
	for _, err := range testdb.Concurrently(len(processes), func(i int) (err error) {
		won[i], err = processes[i].SetSecretHash(t.Context(), "a.x", old, fmt.Sprint(name, i))
		return err
	}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	hashes, err := processes[0].SecretHashes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	winners := 0
	for i := range won {
		if won[i] {
			winners++
			if hashes["a.x"] != fmt.Sprint(name, i) {
				t.Errorf("%s: process %d won and the hash is %q", name, i, hashes["a.x"])
			}
		}
	}
	if winners != 1 {
		t.Errorf("%s: %d processes won", name, winners)
	}
}
