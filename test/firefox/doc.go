// Package firefox tests the built binary with its most important client:
// two real Firefox browsers, headless, that sync one account through it.
//
// # Running it
//
// `make test-firefox`, or `go test ./test/firefox` where Debian's firefox-esr is
// installed. FIREFOX_BIN names another, and HOLDFAST_BIN a binary to be tested
// instead of one that is built; a relative path starts at this folder. Without
// a Firefox the test is skipped, unless TEST_REQUIRE has `firefox` in its list.
// It takes less than half a minute on each engine: SQLite, and Spanner where
// there is an emulator of it. Two tests that only the soak runs move the
// browsers to another server: one that has imported the database of Mozilla's,
// and one on PostgreSQL, to which the services were copied meanwhile.
//
// # What runs
//
//   - accounts.Server, a stub of the accounts server with one account. It signs
//     access tokens that Holdfast checks, and it can give the account a new
//     password.
//   - the binary on the embedded default, or with the records in Spanner, in a
//     fresh folder, told by SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL to trust that
//     server.
//   - Firefox twice, A and B, each on a fresh profile and with a home of its
//     own. Nobody types a password: the test hands the browser what its sign-in
//     page would have (see signIn in device.js).
//   - one HTTP proxy per browser, the wire, which all of its traffic takes. It
//     refuses whatever is not on loopback and keeps the journal that the steps
//     look into.
//
// # How a browser is controlled
//
// The test speaks Marionette (package marionette) and runs the functions of
// device.js inside the browser's own process, where they use the modules that
// the browser's menus use. they return when the browser is done;
// nothing here sleeps. Firefox would also sync by itself, after each change and
// by the clock; signIn stops that, so each sync in the journal is one that a
// step asked for.
//
// # When it fails
//
// The log then shows how each sync ended in Firefox's own codes, every request
// of both browsers in order with its status, the end of each program's output,
// and the end of each browser's last sync log (about:sync-log, at level Trace).
// A 401 of the tokenserver followed by `error.login.reason.account` is a token
// that Holdfast refused; a 412 on a POST is a collection whose timestamp changed
// between two requests of one batch.
//
// The functions of device.js lean on modules of the browser that promise no
// stability. They are in its omni.ja, a zip file: services-sync/*.sys.mjs for
// sync, FxAccounts*.sys.mjs for the account, chrome/remote for Marionette.
package firefox
