package fault

import (
	"os"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/internal/testdb/spannertest"
)

// engine is a database engine.
type engine string

const (
	onSQLite   engine = "SQLite"
	onPostgres engine = "PostgreSQL"
	onCitus    engine = "Citus"
	onSpanner  engine = "Spanner"
)

// onEach runs a fault that differs between engines.
func onEach(t *testing.T, faults map[engine]func(t *testing.T)) {
	t.Helper()
	for e, run := range faults {
		t.Run(string(e), func(t *testing.T) {
			t.Parallel()
			run(t)
		})
	}
}

// onEngines runs the same fault on several engines, with a data folder and the settings that make
// some services use the engine.
func onEngines(t *testing.T, of []service, engines []engine, run func(t *testing.T, e engine, data string, vars ...string)) {
	t.Helper()
	for _, e := range engines {
		t.Run(string(e), func(t *testing.T) {
			t.Parallel()
			data, vars := e.open(t, of)
			run(t, e, data, vars...)
		})
	}
}

// both returns the engines that every service supports.
func both() []engine { return []engine{onSQLite, onPostgres} }

// inSoak returns the engines in a soak, and none in `make test`: one that has shown the same is faster.
func inSoak(engines ...engine) []engine {
	if testdb.Soaking() {
		return engines
	}
	return nil
}

// inTurn returns the first engine, or all of them when FAULT_ROUNDS is set: for faults that
// concern the process more than its engine.
func inTurn(engines ...engine) []engine {
	if os.Getenv("FAULT_ROUNDS") == "" {
		return engines[:1]
	}
	return engines
}

// open creates a database. On PostgreSQL all services share it.
func (e engine) open(t *testing.T, of []service) (data string, vars []string) {
	t.Helper()
	switch e {
	case onPostgres:
		return t.TempDir(), settings(of, "DATABASE_URL", testdb.PostgresDatabase(t))
	case onCitus:
		return t.TempDir(), settings(of, "DATABASE_URL", testdb.CitusDatabase(t))
	case onSpanner:
		return t.TempDir(), inSpanner(spannertest.Name(t))
	}
	return testdb.SQLite(t), nil
}

// servers is the number of processes that share a database in the tests.
func (e engine) servers() int {
	if e == onSQLite {
		return 1
	}
	return 2
}

// inSpanner returns the settings for a database in an emulator.
func inSpanner(emulator, database string) []string {
	vars := []string{"SPANNER_EMULATOR_HOST=" + emulator, "HOLDFAST_LOG__ACCESS=false"}
	return append(vars, settings(withSpanner(), "DATABASE_URL", "spanner://"+database)...)
}

// withSpanner returns the services that have a backend for Spanner.
func withSpanner() (some []service) {
	for _, s := range services() {
		if s.spanner {
			some = append(some, s)
		}
	}
	return some
}
