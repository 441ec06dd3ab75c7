// Package spannerdb opens Cloud Spanner databases.
//
// Every operation has a name for metrics, and every error has a code of package errcode, derived from its gRPC
// status. A read is a single-use transaction: one round trip, one snapshot, no locks. A write reads everything in one
// message, and writes with mutations in the commit or with one DML message before it. Transactions that Spanner
// aborts are retried. A write predicts its commit's mutations: Spanner rejects more than 80,000, but only at commit.
package spannerdb
