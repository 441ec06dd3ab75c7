// Package sqlitedb opens SQLite files.
//
// A file has one writer, which commits in groups, and several snapshot readers. Acknowledged writes survive a power
// failure: WAL with synchronous=FULL costs one fsync per commit, which waiting callers share, so FULL is nearly as
// fast as NORMAL. Splitting a service over several files would share fewer fsyncs; it was slower.
//
// The driver is zombiezen.com/go/sqlite over modernc.org/sqlite: pure Go, with a native API that does not allocate
// per row or hide statements behind database/sql.
package sqlitedb
