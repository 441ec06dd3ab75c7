// Package testdb finds or starts the real servers that tests run against.
//
// A test gets an engine by a function with its testing.TB. These variables of the
// environment configure it:
//
//   - TEST_POSTGRES_URL, TEST_CITUS_URL, TEST_SPANNER_EMULATOR, TEST_REDIS_URL,
//     TEST_PUBSUB_EMULATOR, TEST_NATS: a running server;
//   - TEST_REQUIRE=postgres,…: engines whose absence is a failure, not a skip;
//   - TEST_WITHOUT_SOAK: leave out the tests that call SoakOnly;
//   - TEST_ENGINE_LOG: a file that gets a line for every test that used an engine or was
//     skipped without it, which the command testservers counts.
//
// Without them, PostgreSQL, Redis, NATS and the emulators are started from the binaries on the
// machine, once for each test process. An installed server that does not work is always a
// failure.
package testdb
