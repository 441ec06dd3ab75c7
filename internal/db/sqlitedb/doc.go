// Package sqlitedb opens SQLite files for the services.
//
// A file has one writer, which commits in groups, and several readers, which use
// snapshots. An acknowledged write survives a power failure: WAL with synchronous=FULL. A
// commit then costs one fsync, which waiting callers share, so that FULL is nearly as fast
// as NORMAL. Several files for one service would share fewer fsyncs, and were slower.
//
// The driver is zombiezen.com/go/sqlite over modernc.org/sqlite: pure Go, and its native
// API neither allocates per row nor hides statements behind database/sql.
package sqlitedb
