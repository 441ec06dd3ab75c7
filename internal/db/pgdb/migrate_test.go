package pgdb_test

import (
	"errors"
	"sync"
	"testing"
	"testing/fstest"

	"holdfast/internal/db/migrate"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
	"holdfast/internal/testdb"
)

func load(t *testing.T, files map[string]string) migrate.Set {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys["m/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	set, err := migrate.Load("service", fsys, "m")
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func versions(ms []migrate.Migration) (vs []int) {
	for _, m := range ms {
		vs = append(vs, m.Version)
	}
	return vs
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	db := open(t, pgdb.Options{URL: testdb.PostgresDatabase(t)})
	ctx := t.Context()
	first := map[string]string{"0001_a.sql": "CREATE TABLE a (); CREATE TABLE b ();\n-- citus\nSELECT no_such_function();\n"}
	set := load(t, first)
	if pending, err := db.Pending(ctx, set); err != nil || len(pending) != 1 {
		t.Fatalf("before: %v, %v", versions(pending), err)
	}
	if applied, err := db.Migrate(ctx, set); err != nil || len(applied) != 1 {
		t.Fatalf("applied %v, %v", versions(applied), err)
	}
	if applied, err := db.Migrate(ctx, set); err != nil || len(applied) != 0 {
		t.Errorf("again: applied %v, %v", versions(applied), err)
	}

	first["0002_c.sql"] = "CREATE TABLE c ();"
	first["0003_d.sql"] = "CREATE TABLE d (); SELECT 1/0;"
	set = load(t, first)
	applied, err := db.Migrate(ctx, set)
	wantCode(t, err, errcode.Internal)
	if len(applied) != 1 || applied[0].Version != 2 {
		t.Errorf("applied %v", versions(applied))
	}
	first["0003_d.sql"] = "CREATE TABLE d ();"
	set = load(t, first)
	if pending, err := db.Pending(ctx, set); err != nil || len(pending) != 1 || pending[0].Version != 3 {
		t.Errorf("pending %v, %v", versions(pending), err)
	}
	if _, err := db.Migrate(ctx, set); err != nil {
		t.Error(err)
	}

	first["0001_a.sql"] += " -- a comment changes nothing"
	if pending, err := db.Pending(ctx, load(t, first)); err != nil || len(pending) != 0 {
		t.Errorf("after another comment: pending %v, %v", versions(pending), err)
	}
	first["0001_a.sql"] += "\nCREATE TABLE e ();"
	_, err = db.Pending(ctx, load(t, first))
	wantCode(t, err, errcode.Unavailable)
}

func TestMigrationExplains(t *testing.T) {
	t.Parallel()
	db := open(t, pgdb.Options{URL: testdb.PostgresDatabase(t)})
	set := load(t, map[string]string{"0001_extension.sql": `DO $$ BEGIN
		RAISE EXCEPTION USING ERRCODE = 'HF001', MESSAGE = 'run CREATE EXTENSION x';
	END $$`})
	_, err := db.Migrate(t.Context(), set)
	wantCode(t, err, errcode.Unavailable)
	if err == nil || err.Error() != "run CREATE EXTENSION x" {
		t.Errorf("the error is %v", err)
	}
}

func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	set := load(t, map[string]string{"0001_a.sql": "CREATE TABLE a ();", "0002_b.sql": "CREATE TABLE b ();"})
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		count = map[int]int{}
	)
	for range 8 {
		db := open(t, pgdb.Options{URL: url})
		wg.Go(func() {
			applied, err := db.Migrate(t.Context(), set)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, m := range applied {
				count[m.Version]++
			}
		})
	}
	wg.Wait()
	if count[1] != 1 || count[2] != 1 {
		t.Errorf("each migration was applied %v times, want once", count)
	}
}

func TestMigrateTakesItsTime(t *testing.T) {
	t.Parallel()
	url := testdb.WithParameter(t, testdb.PostgresDatabase(t), "statement_timeout", "200")
	db := open(t, pgdb.Options{URL: url})
	set := load(t, map[string]string{"0001_a.sql": "CREATE TABLE a (); SELECT pg_sleep(0.3);"})
	if applied, err := db.Migrate(t.Context(), set); err != nil || len(applied) != 1 {
		t.Errorf("applied %v, %v", versions(applied), err)
	}
	_, err := db.Exec(t.Context(), pgdb.Statement{Name: "slow", SQL: `SELECT pg_sleep(0.3)`})
	wantCode(t, err, errcode.Unavailable)
}

func TestIsCitus(t *testing.T) {
	t.Parallel()
	db := open(t, pgdb.Options{URL: testdb.PostgresDatabase(t)})
	if citus, err := db.IsCitus(t.Context()); err != nil || citus {
		t.Errorf("%v, %v", citus, err)
	}
}

// TestMigrateBesideADump checks that a migration waits for a long transaction that reads its table, without blocking
// other statements.
func TestMigrateBesideADump(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	db := open(t, pgdb.Options{URL: url})
	ctx := t.Context()
	files := map[string]string{"0001_a.sql": "CREATE TABLE a ();"}
	if _, err := db.Migrate(ctx, load(t, files)); err != nil {
		t.Fatal(err)
	}
	reading, done := make(chan struct{}), make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() {
		err := db.Tx(ctx, "dump", func(tx *pgdb.Tx) error {
			if _, err := tx.Exec(pgdb.Statement{Name: "read", SQL: `SELECT FROM a`}); err != nil {
				return err
			}
			close(reading)
			<-done
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-reading
	files["0002_b.sql"] = "ALTER TABLE a ADD COLUMN b INTEGER;"
	set := load(t, files)
	others.Go(func() {
		if applied, err := db.Migrate(ctx, set); err != nil || len(applied) != 1 {
			t.Errorf("applied %v, %v", versions(applied), err)
		}
	})
	waits := pgdb.Statement{Name: "waits", SQL: `SELECT FROM pg_locks WHERE relation = 'a'::regclass AND mode = 'AccessExclusiveLock' AND NOT granted`}
	for found := false; !found; {
		var err error
		if found, err = db.QueryRow(ctx, waits, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Exec(ctx, pgdb.Statement{Name: "request", SQL: `SELECT FROM a`}); err != nil {
		t.Error(err)
	}
	if pending, err := db.Pending(ctx, set); err != nil || len(pending) != 1 {
		t.Errorf("migrated while the table was read: %v, %v", versions(pending), err)
	}
	close(done)
	others.Wait()
}

func TestLedgerOfDevelopment(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	testdb.Script(t, url, "CREATE TABLE schema_migrations (room TEXT NOT NULL, version INTEGER NOT NULL, name TEXT NOT NULL, checksum TEXT NOT NULL)")
	db, set := open(t, pgdb.Options{URL: url}), load(t, map[string]string{"0001_a.sql": "CREATE TABLE a ();"})
	if _, err := db.Pending(t.Context(), set); !errors.Is(err, migrate.ErrDevelopment) {
		t.Errorf("pending: %v", err)
	}
	if _, err := db.Migrate(t.Context(), set); !errors.Is(err, migrate.ErrDevelopment) {
		t.Errorf("migrate: %v", err)
	}
}
