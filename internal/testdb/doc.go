// Package testdb finds or starts the real servers that tests run against.
//
// A test gets an engine by passing its testing.TB to a function. Environment variables:
//
//   - TEST_POSTGRES_URL, TEST_CITUS_URL, TEST_SPANNER_EMULATOR, TEST_REDIS_URL,
//     TEST_PUBSUB_EMULATOR, TEST_NATS: a running server;
//   - TEST_REQUIRE=postgres,…: engines whose absence fails tests;
//   - TEST_SET=quick, check or both: the tests of `make test`, of `make check`, or of both;
//   - TEST_ENGINE_LOG: a file that gets a line for every test that used an engine or
//     was skipped without it, counted by the command testservers.
//
// Otherwise PostgreSQL, Redis, NATS and the emulators are started from installed binaries, once per test process. An
// installed server that does not work is always a failure.
package testdb
