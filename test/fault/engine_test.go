package fault

import (
	"testing"

	"holdfast/internal/testdb"
	"holdfast/internal/testdb/spannertest"
)

// engine is what services keep their data in.
type engine string

const (
	onSQLite   engine = "SQLite"
	onPostgres engine = "PostgreSQL"
	onCitus    engine = "Citus"
	onSpanner  engine = "Spanner"
)

// onEach runs a fault on each engine: what strikes depends on it.
func onEach(t *testing.T, faults map[engine]func(t *testing.T)) {
	t.Helper()
	for e, run := range faults {
		t.Run(string(e), func(t *testing.T) {
			t.Parallel()
			run(t)
		})
	}
}

// onEngines runs a fault that is the same on every engine, with the folder of a
// server's data and the settings that lead some services to the engine.
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

// both are the engines that every service has.
func both() []engine { return []engine{onSQLite, onPostgres} }

// open makes a database. In PostgreSQL all services share it.
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

// servers is how many processes the tests let share a database.
func (e engine) servers() int {
	if e == onSQLite {
		return 1
	}
	return 2
}

// inSpanner are settings that lead to a database in an emulator.
func inSpanner(emulator, database string) []string {
	vars := []string{"SPANNER_EMULATOR_HOST=" + emulator, "HOLDFAST_LOG__ACCESS=false"}
	return append(vars, settings(withSpanner(), "DATABASE_URL", "spanner://"+database)...)
}

// withSpanner are the services with a backend for it.
func withSpanner() (some []service) {
	for _, s := range services() {
		if s.spanner {
			some = append(some, s)
		}
	}
	return some
}
