// Package spannerdb opens Cloud Spanner for the services.
//
// Every step has a name, under which it is timed, and every error that leaves
// the package carries a code of package fault, found by gRPC's status. A read is
// one single-use transaction, so one round trip and one snapshot without a
// lock. A write is a read-write transaction that begins with its first
// statement and ends with its commit: what it decides on is read in one message,
// and what it writes travels with the commit, or in one message of DML before
// it. Transactions that Spanner aborts for the sake of others run again, inside.
//
// A write says beforehand how many mutations its commit will have, because
// Spanner refuses a commit of more than 80,000 as a whole and only at its end.
//
// The client keeps one multiplexed session, so there is no pool of sessions;
// what is bounded is how many transactions are under way at once.
package spannerdb
