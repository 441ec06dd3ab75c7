// Package sqlitedb opens SQLite files.
//
// A file has one writer, which commits in groups, and several snapshot readers. Acknowledged writes survive a power
// failure: WAL with synchronous=FULL costs one fsync per commit. Waiting callers share it, so FULL is nearly as fast
// as NORMAL. With several files per service, fewer callers would share an fsync; this was slower.
//
// The driver is zombiezen.com/go/sqlite over modernc.org/sqlite: pure Go, without allocations per row or the detour
// over database/sql.
package sqlitedb
