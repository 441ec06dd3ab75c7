// Package testdb finds or starts the real servers that tests run against.
//
// A test asks for an engine with its testing.TB. What it gets depends on the
// environment:
//
//   - TEST_POSTGRES_URL, TEST_CITUS_URL, TEST_SPANNER_EMULATOR: a server that is
//     there already;
//   - TEST_REQUIRE=postgres,…: engines whose absence is a failure, not a skip;
//   - TEST_ENGINE_LOG: a file that gets a line for every test that used an
//     engine or had to go without, from which the command testservers counts.
//
// Without these, PostgreSQL and the emulator of Spanner are started from the
// binaries on the machine, once for each test process. A server that is present
// but does not work is always a failure.
package testdb
