package fault

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

const migrationLock = 0x686f6c6466617374

// TestMigrateKilledBetween checks that a migration and its ledger line are one transaction. It kills each run between
// two migrations.
func TestMigrateKilledBetween(t *testing.T) {
	t.Parallel()
	one := []string{"HOLDFAST_TOKENSERVER__ENABLED=false", "HOLDFAST_EXTSTORAGE__ENABLED=false", "HOLDFAST_BUCKETS__ENABLED=false"} // other services' migrations use other locks
	want, all := uninterrupted(t, one...)
	url := testdb.PostgresDatabase(t)
	env := inPostgres(t, url, one...)
	for n := range all {
		// PostgreSQL grants the lock in request order: to first, to the run for one migration, to second.
		first, second := harness.Dial(t, url), harness.Dial(t, url)
		query(t, first, `SELECT pg_advisory_lock($1)`, int64(migrationLock))
		cmd := exec.Command(binary.Path(), "migrate")
		cmd.Env = env
		harness.Must(t, cmd.Start())
		waiting(t, first, 1)
		var queued sync.WaitGroup
		queued.Go(func() { query(t, second, `SELECT pg_advisory_lock($1)`, int64(migrationLock)) })
		waiting(t, first, 2)
		query(t, first, `SELECT pg_advisory_unlock($1)`, int64(migrationLock))
		queued.Wait()
		waiting(t, first, 1)
		harness.Must(t, cmd.Process.Kill())
		_ = cmd.Wait() // the process was killed
		harness.Must(t, second.Close(t.Context()))
		if got := ledger(t, first); !slices.Equal(got, all[:n+1]) {
			t.Fatalf("ledger after %d runs of one migration each: %v, want %v", n+1, got, all[:n+1])
		}
		harness.Must(t, first.Close(t.Context()))
	}
	if r := binary.Run(t, env, "migrate"); r.Status != 0 || r.Stdout != "all tables are up to date\n" {
		t.Errorf("last run: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	sameSchema(t, url, want)
}

// TestMigrateKilledAnywhere checks that a run killed at any moment leaves only complete migrations, and that the next
// run applies the rest.
func TestMigrateKilledAnywhere(t *testing.T) {
	t.Parallel()
	want, all := uninterrupted(t)
	length := time.Second // a run's duration
	n := killsOf(t)
	for i := range n {
		url := testdb.PostgresDatabase(t)
		env := inPostgres(t, url)
		cmd := exec.Command(binary.Path(), [][]string{{"migrate"}, {"serve", "--migrate"}}[i%2]...)
		cmd.Env = env
		start := time.Now()
		harness.Must(t, cmd.Start())
		if i > 0 {
			harness.Pause(nil, length*time.Duration(i)/time.Duration(n-1))
			harness.Must(t, cmd.Process.Kill()) // also succeeds after the exit, because the test has not waited for the process
		}
		if err := cmd.Wait(); i == 0 {
			harness.Must(t, err)
			length = min(length, time.Since(start))
		}
		conn := harness.Dial(t, url)
		done := len(ledger(t, conn))
		harness.Must(t, conn.Close(t.Context()))
		r := binary.Run(t, env, "migrate")
		if left := strings.Count(r.Stdout, "applied"); r.Status != 0 || left > len(all)-done {
			t.Errorf("run after a kill at %d of %d migrations: status %d\n%s%s", done, len(all), r.Status, r.Stdout, r.Stderr)
		}
		sameSchema(t, url, want)
	}
}

// killsOf returns how many commands to kill, at moments spread over the first run's duration. The first run completes.
func killsOf(t *testing.T) int {
	t.Helper()
	return min(1+int(harness.Number(t, "FAULT_ROUNDS", 4)), 40)
}

// TestMigrateAtOnce checks that among concurrent runs exactly one applies each migration.
func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	want, all := uninterrupted(t)
	url := testdb.PostgresDatabase(t)
	for _, tc := range []struct {
		env   []string
		least int
	}{
		{inPostgres(t, url), len(all)},
		{binary.Environ("HOLDFAST_DATA=" + binary.UsedData(t, testdb.SQLite(t))), 2},
	} {
		var (
			runs sync.WaitGroup
			mu   sync.Mutex
			done []string
		)
		for range 4 {
			runs.Go(func() {
				r := binary.Run(t, tc.env, "migrate")
				if r.Status != 0 {
					t.Errorf("status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
				}
				mu.Lock()
				defer mu.Unlock()
				for line := range strings.Lines(r.Stdout) {
					if strings.Contains(line, "applied") {
						done = append(done, line)
					}
				}
			})
		}
		runs.Wait()
		slices.Sort(done)
		if n := len(slices.Compact(slices.Clone(done))); n < tc.least || len(done) != n {
			t.Errorf("%d migrations, %d of them different, want at least %d:\n%s", len(done), n, tc.least, strings.Join(done, ""))
		}
	}
	sameSchema(t, url, want)
}

func uninterrupted(t *testing.T, vars ...string) (schema string, lines []string) {
	t.Helper()
	url := testdb.PostgresDatabase(t)
	if r := binary.Run(t, inPostgres(t, url, vars...), "migrate"); r.Status != 0 {
		t.Fatalf("migrate: %s%s", r.Stdout, r.Stderr)
	}
	conn := harness.Dial(t, url)
	lines = ledger(t, conn)
	if len(lines) < 6 {
		t.Fatalf("ledger: %v", lines)
	}
	schema = query(t, conn, sqlSchema)
	harness.Must(t, conn.Close(t.Context()))
	return schema, lines
}

func inPostgres(t *testing.T, url string, vars ...string) []string {
	t.Helper()
	return binary.Environ(append(vars, "HOLDFAST_DATA="+t.TempDir(),
		"HOLDFAST_SERVER__LISTEN=127.0.0.1:0", "HOLDFAST_SERVER__ADMIN_LISTEN=127.0.0.1:0",
		"HOLDFAST_SYNCSTORAGE__DATABASE_URL="+url, "HOLDFAST_TOKENSERVER__DATABASE_URL="+url, "HOLDFAST_EXTSTORAGE__DATABASE_URL="+url,
		"HOLDFAST_BUCKETS__DATABASE_URL="+url)...)
}

const sqlSchema = `
	SELECT string_agg(x, E'\n' ORDER BY x) FROM (
		SELECT concat_ws(' ', table_name, ordinal_position, column_name, data_type, is_nullable, column_default) AS x
			FROM information_schema.columns WHERE table_schema = 'public'
		UNION ALL SELECT oid::regprocedure || ' ' || md5(prosrc) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
		UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
		UNION ALL SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'public'::regnamespace
	) s`

func sameSchema(t *testing.T, url, want string) {
	t.Helper()
	conn := harness.Dial(t, url)
	if got := query(t, conn, sqlSchema); got != want {
		t.Errorf("schema:\n%s\nwant:\n%s", got, want)
	}
	harness.Must(t, conn.Close(t.Context()))
}

func ledger(t *testing.T, conn *pgx.Conn) []string {
	t.Helper()
	if query(t, conn, `SELECT to_regclass('schema_migrations')`) == "" {
		return nil
	}
	return strings.Fields(query(t, conn, `SELECT string_agg(service || '/' || version, ' ' ORDER BY service, version) FROM schema_migrations`))
}

func waiting(t *testing.T, conn *pgx.Conn, n int) {
	t.Helper()
	const sql = `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	for start := time.Now(); query(t, conn, sql) != fmt.Sprint(n); harness.Pause(nil, 5*time.Millisecond) {
		if time.Since(start) > harness.Bound {
			t.Fatalf("timeout: want %d processes waiting for the lock", n)
		}
	}
}

func query(t *testing.T, conn *pgx.Conn, sql string, args ...any) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Bound)
	defer cancel()
	r := conn.PgConn().ExecParams(ctx, sql, encode(args), nil, nil, nil).Read()
	harness.Must(t, r.Err)
	return string(r.Rows[0][0])
}

func encode(args []any) (values [][]byte) {
	for _, a := range args {
		values = append(values, fmt.Append(nil, a))
	}
	return values
}
