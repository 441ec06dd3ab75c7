// Package sqlitedb opens SQLite files for the services that are embedded.
//
// A file has one writer, which commits in groups, and a number of readers,
// which see snapshots. An acknowledged write survives the loss of power: WAL
// with synchronous=FULL. One fsync is then the price of a commit, and sharing
// it among the callers that wait at that moment is what makes FULL nearly as
// fast as NORMAL; splitting a service over several files loses that and was
// measured slower.
//
// The driver is zombiezen.com/go/sqlite over modernc.org/sqlite: pure Go, and
// its native API neither allocates per row nor hides statements behind
// database/sql.
package sqlitedb
