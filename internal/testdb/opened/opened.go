// Package opened opens and migrates test databases as the server does, with the engines' packages.
//
// It is separate from package testdb, because the tests of those packages import testdb.
package opened

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/db/migrate"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	"holdfast/internal/testdb"
)

// Migrations returns a backend's migrations. nil means no migrations.
type Migrations func() (migrate.Set, error)

// SQLite opens a file, by default a new one.
func SQLite(t testing.TB, opts sqlitedb.Options, migrations Migrations) *sqlitedb.DB {
	t.Helper()
	if opts.Path == "" {
		opts.Path = filepath.Join(testdb.SQLite(t), "test.db")
	}
	db, err := sqlitedb.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	Migrate(t, db, migrations)
	return db
}

func Postgres(t testing.TB, opts pgdb.Options, migrations Migrations) *pgdb.DB {
	t.Helper()
	db, err := pgdb.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	Migrate(t, db, migrations)
	return db
}

// Lines returns the rows of a statement with a single text column.
func Lines(t testing.TB, db *pgdb.DB, sql string, args ...any) (all []string) {
	t.Helper()
	var line string
	err := db.ForEach(t.Context(), pgdb.Statement{Name: "test", SQL: sql}, args, func() { all = nil }, func() error {
		all = append(all, line)
		return nil
	}, &line)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

type database interface {
	Migrate(ctx context.Context, set migrate.Set) ([]migrate.Migration, error)
}

func Migrate(t testing.TB, db database, migrations Migrations) {
	t.Helper()
	if migrations == nil {
		return
	}
	set, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Migrate(t.Context(), set); err != nil {
		t.Fatal(err)
	}
}

// SQLiteFromEachSchema migrates files with data from every earlier schema and calls check with each.
func SQLiteFromEachSchema(t *testing.T, migrations Migrations, check func(*testing.T, *sqlitedb.DB)) {
	fromEachSchema(t, migrations, func(t *testing.T) (*sqlitedb.DB, func(script string)) {
		db := SQLite(t, sqlitedb.Options{}, nil)
		return db, func(script string) {
			err := db.Write(t.Context(), "the data", func(c *sqlite.Conn) error { return sqlitex.ExecuteScript(c, script, nil) })
			if err != nil {
				t.Fatal(err)
			}
		}
	}, check)
}

// PostgresFromEachSchema is like SQLiteFromEachSchema, but with databases from create.
func PostgresFromEachSchema(t *testing.T, create func(testing.TB) string, migrations Migrations, check func(*testing.T, *pgdb.DB)) {
	fromEachSchema(t, migrations, func(t *testing.T) (*pgdb.DB, func(script string)) {
		url := create(t)
		return Postgres(t, pgdb.Options{URL: url}, nil), func(script string) { testdb.Script(t, url, script) }
	}, check)
}

// fromEachSchema reads data from testdata/schema/NNNN.sql, where NNNN is the schema's last migration. The newest is
// required: it tests later migrations.
func fromEachSchema[DB database](
	t *testing.T, migrations Migrations, open func(*testing.T) (db DB, run func(script string)), check func(*testing.T, DB),
) {
	set, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Glob("testdata/schema/*.sql")
	newest := filepath.FromSlash(fmt.Sprintf("testdata/schema/%04d.sql", len(set.Migrations)))
	if err != nil || !slices.Contains(scripts, newest) {
		t.Fatalf("%s: not found, %v", newest, err)
	}
	for _, file := range scripts {
		name := strings.TrimSuffix(filepath.Base(file), ".sql")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, err := strconv.Atoi(name)
			if err != nil || k < 1 || k > len(set.Migrations) {
				t.Fatalf("%s: not the number of a migration", file)
			}
			script, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			db, run := open(t)
			if _, err := db.Migrate(t.Context(), migrate.Set{Service: set.Service, Migrations: set.Migrations[:k]}); err != nil {
				t.Fatal(err)
			}
			run(string(script))
			applied, err := db.Migrate(t.Context(), set)
			if err != nil || len(applied) != len(set.Migrations)-k {
				t.Fatalf("applied %d migrations: %v", len(applied), err)
			}
			check(t, db)
		})
	}
}

// WantPing expects ping to return errcode.Unavailable before the migrations, and nil after.
func WantPing(t testing.TB, db database, migrations Migrations, ping func(context.Context) error) {
	t.Helper()
	if err := ping(t.Context()); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("before the migrations: %v", err)
	}
	Migrate(t, db, migrations)
	for range 2 {
		if err := ping(t.Context()); err != nil {
			t.Errorf("after the migrations: %v", err)
		}
	}
}
