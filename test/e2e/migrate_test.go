package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// TestNewerSchemaOnSQLite checks that a release too old for the database reports this and changes nothing. A release
// that the newer schema still supports continues.
func TestNewerSchemaOnSQLite(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, testdb.SQLite(t))
	c := s.Token(1)
	c.Want(t, http.StatusOK, "PUT", "/storage/tabs/x", `{"payload":"kept"}`)
	path := filepath.Join(s.Data, "syncstorage.db")
	alter(t, path, `INSERT INTO schema_migrations SELECT service, version + 1, 'adds', 'of a newer release', applied_at
		FROM schema_migrations WHERE service = 'syncstorage' ORDER BY version DESC LIMIT 1`)
	s.Kill()
	s = binary.Start(t, s.Data)
	c.Endpoint = s.URL + "/1.5/1"
	c.Want(t, http.StatusOK, "PUT", "/storage/tabs/y", `{"payload":"kept too"}`)

	takeAway := `UPDATE schema_migrations SET name = 'drops_needs_' || printf('%04d', version) WHERE name = 'adds'`
	alter(t, path, takeAway)
	if why := s.Await("/readyz", http.StatusServiceUnavailable); !strings.Contains(why, "too old for the database") {
		t.Errorf("a running server: %s", why)
	}
	s.Kill()
	for _, verb := range []string{"serve", "migrate"} {
		if r := binary.Run(t, s.Env, verb); r.Status != 1 || !strings.Contains(r.Stderr, "too old for the database") {
			t.Errorf("%s: status %d\n%s%s", verb, r.Status, r.Stdout, r.Stderr)
		}
	}
	if r := binary.Run(t, s.Env, "check"); r.Status != 1 || !strings.Contains(r.Stdout, "too old for the database") {
		t.Errorf("check: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	s.Verb("backup", filepath.Join(t.TempDir(), "backup")) // copies unknown tables
	if n := number(t, path, `SELECT count(*) FROM bsos`); n != 2 {
		t.Errorf("%d records are left", n)
	}
}

// TestNewerSchemaOnPostgres checks that a release too old for the database keeps running and reports why it is not
// ready.
func TestNewerSchemaOnPostgres(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	service := "HOLDFAST_SYNCSTORAGE__DATABASE_URL=" + url
	s := binary.Launch(t, t.TempDir(), service)
	s.Verb("migrate")
	s.Await("/readyz", http.StatusOK)
	execute(t, url, `INSERT INTO schema_migrations SELECT service, version + 1, 'adds', 'of a newer release'
		FROM schema_migrations WHERE service = 'syncstorage' ORDER BY version DESC LIMIT 1`)
	if out := s.Verb("migrate"); out != "all tables are up to date\n" {
		t.Errorf("migrate: %s", out)
	}
	s.Await("/readyz", http.StatusOK)
	execute(t, url, `UPDATE schema_migrations SET name = 'drops_needs_' || to_char(version, 'FM0000') WHERE name = 'adds'`)
	if why := s.Await("/readyz", http.StatusServiceUnavailable); !strings.Contains(why, "too old for the database") {
		t.Errorf("not ready because of %s", why)
	}
	if r := binary.Run(t, s.Env, "check"); r.Status != 1 || !strings.Contains(r.Stdout, "too old for the database") {
		t.Errorf("check: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
}

// TestMigrateWithoutRights checks that a failed migration keeps earlier migrations, suggests a fix, and succeeds after
// the fix.
func TestMigrateWithoutRights(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	execute(t, url, `CREATE TABLE bsos ()`) // another program's table
	env := binary.Environ("HOLDFAST_DATA="+t.TempDir(), "HOLDFAST_TOKENSERVER__ENABLED=false", "HOLDFAST_SYNCSTORAGE__DATABASE_URL="+url)
	if r := binary.Run(t, env, "migrate"); r.Status != 1 || !strings.Contains(r.Stderr, `migration 0001_tables`) || !strings.Contains(r.Stderr, `"bsos" already exists`) {
		t.Errorf("a table in the way: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	execute(t, url, `DROP TABLE bsos; DROP TABLE IF EXISTS schema_migrations, secret_hashes, read_only, copy_state, copy_log, sweep_rounds`)
	role := "poor_" + filepath.Base(strings.SplitN(url, "?", 2)[0])
	execute(t, url, `CREATE ROLE `+role+` LOGIN`)
	t.Cleanup(func() { execute(t, url, `DROP OWNED BY `+role+`; DROP ROLE `+role) })
	env = binary.Environ("HOLDFAST_DATA="+t.TempDir(), "HOLDFAST_TOKENSERVER__ENABLED=false",
		"HOLDFAST_SYNCSTORAGE__DATABASE_URL="+testdb.WithParameter(t, url, "user", role))
	if r := binary.Run(t, env, "migrate"); r.Status != 1 || !strings.Contains(r.Stderr, "GRANT it CREATE") {
		t.Errorf("no rights: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	execute(t, url, `GRANT CREATE ON SCHEMA public TO `+role)
	if r := binary.Run(t, env, "migrate"); r.Status != 0 || !strings.Contains(r.Stdout, "0001_tables") {
		t.Errorf("with the right: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
}

// TestMigrateOnAFullDisk fills the database's disk and frees it. The test uses its own database server, because other
// tests need the shared server's disk.
func TestMigrateOnAFullDisk(t *testing.T) {
	t.Parallel()
	postgres, err := user.Lookup("postgres")
	if err != nil {
		t.Skipf("needs the user postgres, which runs PostgreSQL if the test is run as root: %v", err)
	}
	disk := tmpfs(t, "size=12m,mode=700,uid="+postgres.Uid)
	if err := os.Chmod(filepath.Dir(disk), 0o755); err != nil {
		t.Fatal(err)
	}
	url := testdb.OwnPostgres(t, testdb.PostgresOptions{}).URL()
	execute(t, url, `CREATE TABLESPACE small LOCATION '`+disk+`'`)
	execute(t, url, `CREATE DATABASE small TABLESPACE small TEMPLATE template0`)
	small := strings.Replace(url, "/postgres?", "/small?", 1)
	for rows := 1 << 14; rows > 0; rows /= 2 { // until no page is free
		_ = try(t, small, fmt.Sprintf(`CREATE TABLE fill_%d AS SELECT repeat('x', 1000) FROM generate_series(1, %[1]d)`, rows))
	}
	env := binary.Environ("HOLDFAST_DATA="+t.TempDir(), "HOLDFAST_SYNCSTORAGE__DATABASE_URL="+small, "HOLDFAST_TOKENSERVER__DATABASE_URL="+small, "HOLDFAST_EXTSTORAGE__ENABLED=false",
		"HOLDFAST_BUCKETS__ENABLED=false")
	r := binary.Run(t, env, "migrate")
	if r.Status != 1 || !strings.Contains(r.Stderr, "disk is full") {
		t.Errorf("status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	done := strings.Count(r.Stdout, "applied")
	for rows := 1 << 14; rows > 0; rows /= 2 {
		execute(t, small, fmt.Sprintf(`DROP TABLE IF EXISTS fill_%d`, rows))
	}
	again := binary.Run(t, env, "migrate")
	left := strings.Count(again.Stdout, "applied")
	if again.Status != 0 || left == 0 {
		t.Errorf("with free space again: status %d\n%s%s", again.Status, again.Stdout, again.Stderr)
	}
	if n := lines(t, small); n != done+left {
		t.Errorf("%d migrations were applied, then %d; the ledger has %d", done, left, n)
	}
}

func lines(t *testing.T, url string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM schema_migrations`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

func execute(t *testing.T, url, sql string) {
	t.Helper()
	if err := try(t, url, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func try(t *testing.T, url, sql string) error {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // cleanups run after t.Context() has ended
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	_, err = conn.PgConn().Exec(ctx, sql).ReadAll()
	if closing := conn.Close(ctx); err == nil {
		err = closing
	}
	return err
}
