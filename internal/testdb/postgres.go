package testdb

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/ident"
)

var remedyPostgres = Install("postgresql") + " (15 or newer), or set TEST_POSTGRES_URL"

// process is global, because helpers in different packages must share it.
var process = sync.OnceValues(func() (*PostgresServer, error) { return StartPostgres(PostgresOptions{}) })

// Postgres returns a shared database's URL. Each test uses its own owners and does not delete them.
func Postgres(t testing.TB) string {
	t.Helper()
	needsServer(t, EnginePostgres)
	base := os.Getenv("TEST_POSTGRES_URL")
	if base == "" {
		server, err := process()
		if errors.Is(err, ErrNotInstalled) {
			absent(t, EnginePostgres, remedyPostgres)
		}
		if err != nil {
			t.Fatalf("PostgreSQL is installed but does not start: %v", err)
		}
		base = server.URL()
	}
	ran(t, EnginePostgres)
	return base
}

// PostgresDatabase returns a new database's URL, dropped when the test ends, for tests of migrations, plans, and
// operations on all owners.
func PostgresDatabase(t testing.TB) string {
	t.Helper()
	base := Postgres(t)
	name := "test_" + ident.New()
	execute(t, base, `CREATE DATABASE `+name+` TEMPLATE template0 STRATEGY file_copy`)
	t.Cleanup(func() { execute(t, base, `DROP DATABASE `+name+` WITH (FORCE)`) })
	return withDatabase(t, base, name)
}

// DurablePostgres starts a durable server, for benchmarks and tests of an unavailable server.
func DurablePostgres(t testing.TB) *PostgresServer {
	t.Helper()
	return OwnPostgres(t, PostgresOptions{Durable: true})
}

// OwnPostgres starts a server for this test alone, which it may stop, kill and fill.
func OwnPostgres(t testing.TB, opts PostgresOptions) *PostgresServer {
	t.Helper()
	needsServer(t, EnginePostgres)
	server, err := StartPostgres(opts)
	if errors.Is(err, ErrNotInstalled) {
		absent(t, EnginePostgres, Install("postgresql")+" (15 or newer)")
	}
	if err != nil {
		t.Fatalf("PostgreSQL is installed but does not start: %v", err)
	}
	t.Cleanup(server.Remove)
	ran(t, EnginePostgres)
	return server
}

func execute(t testing.TB, url, sql string, args ...any) {
	t.Helper()
	if err := try(url, sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func try(url, sql string, args ...any) error {
	// The test's context is canceled before cleanups.
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	_, err = conn.Exec(ctx, sql, args...)
	return errors.Join(err, conn.Close(ctx))
}

// WithParameter adds a parameter to the URL, e.g. a session setting.
func WithParameter(t testing.TB, base, name, value string) string {
	t.Helper()
	u := parse(t, base)
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

func withDatabase(t testing.TB, base, name string) string {
	t.Helper()
	u := parse(t, base)
	u.Path = "/" + name
	return u.String()
}

func parse(t testing.TB, base string) *url.URL {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil || u.Scheme == "" {
		t.Fatal("the URL of a test server must be of the form postgres://user@host/database")
	}
	return u
}

// PostgresProgram returns the path of a program of the installed PostgreSQL, such as pg_dump. Without one it skips the
// test, or fails it if TEST_REQUIRE names PostgreSQL.
func PostgresProgram(t testing.TB, name string) string {
	t.Helper()
	dir, err := findPostgres()
	if err != nil {
		absent(t, EnginePostgres, Install("postgresql")+" (15 or newer), which has "+name)
	}
	return filepath.Join(dir, name)
}
