package all_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"holdfast/internal/conf/settings"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/migrate"
	"holdfast/internal/errcode"
	"holdfast/internal/obs"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/spannertest"
)

// TestDevelopmentBuild opens databases that another build migrated. Only a build with another statement is refused, on
// each engine with the same sentence, which names the way out and nothing about damage.
func TestDevelopmentBuild(t *testing.T) {
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
			open := func(text string) *engine.Database {
				if name == "spanner" {
					text = strings.ReplaceAll(strings.ReplaceAll(text, "TEXT", "STRING(36)"), ", PRIMARY KEY (id))", ") PRIMARY KEY (id)")
				}
				return openBuild(t, url, emulator, text)
			}
			const table = "CREATE TABLE IF NOT EXISTS toys (id TEXT NOT NULL, PRIMARY KEY (id));\n"
			if _, err := open(table).Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			if pending, err := open("-- The toys.\n" + strings.ReplaceAll(table, "toys (id", "toys\n  (id") + "-- Others are elsewhere.\n").Pending(t.Context()); err != nil || len(pending) > 0 {
				t.Errorf("another comment: %d pending, %v", len(pending), err)
			}
			db := open(strings.ReplaceAll(table, "toys", "games"))
			_, pending := db.Pending(t.Context())
			_, migrated := db.Migrate(t.Context())
			for what, err := range map[string]error{"pending": pending, "migrate": migrated} {
				if !errors.Is(err, migrate.ErrDevelopment) || !errcode.Is(err, errcode.Unavailable) || !strings.Contains(err.Error(), "the database was made by a development build of Holdfast: export its data with that build, or move the database away") ||
					strings.Contains(err.Error(), "internal error") {
					t.Errorf("%s: %v", what, err)
				}
				if fix := db.Advice(err); fix != migrate.DevelopmentFix {
					t.Errorf("%s: the advice is %q", what, fix)
				}
			}
		})
	}
}

// openBuild opens a database with a build's only migration.
func openBuild(t *testing.T, url, emulator, text string) *engine.Database {
	t.Helper()
	load := func() (migrate.Set, error) {
		return migrate.Load("toys", fstest.MapFS{"m/0001_toys.sql": {Data: []byte(text)}}, "m")
	}
	s := settings.DefaultDatabase()
	s.DatabaseURL = url
	o := &engine.Opener{Data: t.TempDir(), Create: true, Metrics: obs.NewMetrics("test", "")}
	_, db, err := engine.Open(t.Context(), o, "toys", engine.Settings{Database: s, Spanner: engine.SpannerSettings{EmulatorHost: emulator}}, empty(load)...)
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
