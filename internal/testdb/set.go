package testdb

import (
	"os"
	"slices"
	"testing"
)

// Sets of tests, the values of TEST_SET. Without it, every test runs.
const (
	// QuickSet is `make test`: unit tests, the suites on SQLite, PostgreSQL and Redis, the built program's most important
	// tests, and a kill test for each service. A newcomer waits for it, so it starts no browser and no other client.
	QuickSet = "quick"

	// CheckSet is `make check`: all tests but those that only `make soak` runs and, of the tests of the built program,
	// those that `make test` runs.
	CheckSet = "check"

	// BothSets is for CI.
	BothSets = "both"
)

// Set returns TEST_SET.
func Set() string { return os.Getenv("TEST_SET") }

// quickEngines are the engines of QuickSet.
var quickEngines = []string{EngineSQLite, EnginePostgres, EngineRedis}

// UsesEngine reports whether the tests of the set use an engine.
func UsesEngine(engine string) bool {
	return Set() != QuickSet || slices.Contains(quickEngines, engine)
}

// CheckOnly skips a test in `make test`. why is the reason, e.g. that the test is slow or that another test covers most
// of it.
func CheckOnly(t testing.TB, why string) {
	t.Helper()
	if Set() == QuickSet {
		t.Skipf("left to make check (to run it here, unset TEST_SET): %s", why)
	}
}

// Soaking reports whether tests that call SoakOnly run: neither in `make test` nor in `make check`.
func Soaking() bool { return Set() == "" }

// SoakOnly skips a test in `make test` and `make check`. why is the reason, e.g. that the test is slow or that another
// test covers it.
func SoakOnly(t testing.TB, why string) {
	t.Helper()
	if !Soaking() {
		t.Skipf("left to make soak PART=tests (to run it here, unset TEST_SET): %s", why)
	}
}
