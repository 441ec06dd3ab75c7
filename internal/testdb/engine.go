package testdb

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Engine names, also in TEST_REQUIRE.
const (
	EngineSQLite   = "sqlite"
	EnginePostgres = "postgres"
	EngineCitus    = "citus"
	EngineSpanner  = "spanner"

	EnginePgBouncer = "pgbouncer"
	EngineRedis     = "redis"
	EnginePubSub    = "pubsub"
	EngineNATS      = "nats"
	EngineMariaDB   = "mariadb"
)

// Engines returns the engines in report order.
func Engines() []string {
	return []string{EngineSQLite, EnginePostgres, EngineCitus, EngineSpanner, EnginePgBouncer, EngineRedis, EnginePubSub, EngineNATS, EngineMariaDB}
}

// SQLite records that the test uses SQLite, which is always available, and returns a folder for its files.
func SQLite(t testing.TB) string {
	t.Helper()
	ran(t, EngineSQLite)
	return t.TempDir()
}

// Memory returns a folder in memory, where a sync is free, or the temporary folder.
func Memory() string {
	const folder = "/dev/shm"
	if info, err := os.Stat(folder); err == nil && info.IsDir() {
		return folder
	}
	return os.TempDir()
}

// MemoryFolder returns a folder in memory that the test removes.
func MemoryFolder(t testing.TB) string {
	t.Helper()
	root, err := os.MkdirTemp(Memory(), "holdfast-test-") //nolint:usetesting // in memory
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	return root
}

func ran(t testing.TB, engine string) {
	t.Helper()
	record(t, engine, Ran, t.Name())
}

// absent skips the test, or fails it if TEST_REQUIRE names the engine.
func absent(t testing.TB, engine, remedy string) {
	t.Helper()
	leaveToCheck(t, engine)
	record(t, engine, Absent, remedy)
	if slices.Contains(strings.Split(os.Getenv("TEST_REQUIRE"), ","), engine) {
		t.Fatalf("%s is required by TEST_REQUIRE and is not available: %s", engine, remedy)
	}
	t.Skipf("no %s: %s", engine, remedy)
}

// leaveToCheck skips the test if the set of tests does not use the engine.
func leaveToCheck(t testing.TB, engine string) {
	t.Helper()
	if !UsesEngine(engine) {
		record(t, engine, Absent, "left to make check")
		t.Skipf("%s: left to make check (to use it here, unset TEST_SET)", engine)
	}
}

// needsServer skips the test with -short, or if the set of tests does not use the engine.
func needsServer(t testing.TB, engine string) {
	t.Helper()
	leaveToCheck(t, engine)
	if testing.Short() {
		record(t, engine, Absent, "go test ran with -short")
		t.Skipf("%s: not with -short", engine)
	}
}

// Kinds of lines in the engine log.
const (
	Ran    = "ran"
	Absent = "absent"
)

// record appends a line to the engine log.
func record(t testing.TB, engine, kind, text string) {
	t.Helper()
	path := os.Getenv("TEST_ENGINE_LOG")
	if path == "" {
		return
	}
	dir, err := os.Getwd() // go test runs a test in its package's folder
	if err != nil {
		t.Fatal(err)
	}
	// A small write to a file opened for appending is atomic.
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatalf("TEST_ENGINE_LOG: %v", err)
	}
	_, err = fmt.Fprintf(f, "%s\t%s\t%s\t%s\n", engine, kind, dir, text)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		t.Fatalf("TEST_ENGINE_LOG: %v", err)
	}
}
