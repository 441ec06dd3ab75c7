// Package spannerdb opens Cloud Spanner databases for the services.
//
// Every operation has a name for its metrics. Every returned error has a code of package
// errcode, determined by the gRPC status. A read is a single-use transaction: one round trip
// and one snapshot without locks. A write is a read-write transaction that begins with its
// first statement. It reads everything that it needs in one message, and writes by
// mutations in the commit or by one message of DML before it. Transactions that Spanner
// aborts are retried.
//
// A write predicts the mutations of its commit, because Spanner rejects a commit with more
// than 80,000, and only at its end.
//
// The client has one multiplexed session and no session pool. The number of open
// transactions is limited.
package spannerdb
