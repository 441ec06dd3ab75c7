package harness

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/testdb"
	"holdfast/internal/testdb/spannertest"
)

type Engine string

// Database engines.
const (
	OnSQLite   Engine = "SQLite"
	OnPostgres Engine = "PostgreSQL"
	OnCitus    Engine = "Citus"
	OnSpanner  Engine = "Spanner"
)

// OnEach runs a fault that differs by engine.
func OnEach(t *testing.T, faults map[Engine]func(t *testing.T)) {
	t.Helper()
	for e, run := range faults {
		t.Run(string(e), func(t *testing.T) {
			t.Parallel()
			run(t)
		})
	}
}

func OnEngines(t *testing.T, of []Service, engines []Engine, run func(t *testing.T, e Engine, data string, vars ...string)) {
	t.Helper()
	for _, e := range engines {
		t.Run(string(e), func(t *testing.T) {
			t.Parallel()
			data, vars := e.open(t, of)
			run(t, e, data, vars...)
		})
	}
}

// Both returns the engines that every service supports.
func Both() []Engine { return []Engine{OnSQLite, OnPostgres} }

// InSoak returns the engines in a soak, and none otherwise, because `make check` uses a faster engine.
func InSoak(engines ...Engine) []Engine {
	if testdb.Soaking() {
		return engines
	}
	return nil
}

// InTurn returns the first engine, or all engines if FAULT_ROUNDS is set. Use it if the engine hardly matters for the
// fault.
func InTurn(engines ...Engine) []Engine {
	if os.Getenv("FAULT_ROUNDS") == "" {
		return engines[:1]
	}
	return engines
}

func (e Engine) open(t *testing.T, of []Service) (data string, vars []string) {
	t.Helper()
	switch e {
	case OnPostgres:
		return t.TempDir(), Settings(of, "DATABASE_URL", testdb.PostgresDatabase(t))
	case OnCitus:
		return t.TempDir(), Settings(of, "DATABASE_URL", testdb.CitusDatabase(t))
	case OnSpanner:
		emulator, database := spannertest.Name(t)
		return t.TempDir(), InSpanner(of, emulator, database)
	}
	return testdb.SQLite(t), nil
}

// Servers returns how many processes share a database.
func (e Engine) Servers() int {
	if e == OnSQLite {
		return 1
	}
	return 2
}

func InSpanner(of []Service, emulator, database string) []string {
	vars := []string{"SPANNER_EMULATOR_HOST=" + emulator, "HOLDFAST_LOG__ACCESS=false"}
	return append(vars, Settings(slices.DeleteFunc(slices.Clone(of), func(s Service) bool { return !s.Spanner }), "DATABASE_URL", "spanner://"+database)...)
}

func Run(t *testing.T, path string, args ...string) {
	t.Helper()
	if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", path, err, out)
	}
}

// Abandoned waits until the database has finished a killed server's statements.
func Abandoned(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Bound)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	Must(t, err)
	defer func() { Must(t, conn.Close(context.WithoutCancel(ctx))) }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var n int
		Must(t, conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
			AND datname = current_database() AND application_name NOT LIKE 'citus_internal%'`).Scan(&n))
		if n == 0 {
			return
		}
		<-tick.C
	}
}

func Dial(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	Must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}
