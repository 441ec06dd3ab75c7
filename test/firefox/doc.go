// Package firefox tests the built binary with its most important client: two headless Firefox browsers sync an
// account.
//
// # Running it
//
// `make test-firefox`, or `go test ./test/firefox` with Debian's firefox-esr. FIREFOX_BIN names another browser, and
// HOLDFAST_BIN an existing binary to test; relative paths start at this folder. Without Firefox the test is skipped,
// unless TEST_REQUIRE lists `firefox`. It takes less than 30 s per engine: SQLite, and Spanner if an emulator is
// installed. Two soak tests move the browsers to another server: one imported the database of Mozilla's server, the
// other runs on PostgreSQL with copied services.
//
// # Controlling a browser
//
// The test speaks Marionette (package marionette) and runs device.js functions in the browser's own process, with the
// modules behind its menus. They return when the browser is done; nothing sleeps. Firefox would also sync after each
// change and periodically; signIn stops that, so the steps requested every sync in the journal.
//
// # Failures
//
// The log shows each sync's result in Firefox's codes, both browsers' requests in order with status, the last lines
// printed by each program, and the last lines in each browser's sync log (about:sync-log, level Trace). A tokenserver
// 401 followed by `error.login.reason.account` means that Holdfast refused the token; a 412 on a POST means that the
// collection's timestamp changed between two requests of a batch.
//
// device.js depends on browser modules without a stable API. They are in omni.ja, a zip file: services-sync/*.sys.mjs
// for sync, FxAccounts*.sys.mjs for the account, chrome/remote for Marionette.
package firefox
