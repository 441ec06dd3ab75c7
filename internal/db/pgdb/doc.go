// Package pgdb opens PostgreSQL databases, version 15 or newer.
//
// Every statement has a name for metrics. Every error of a DB or Rows has a code of package errcode: Unavailable if a retry
// may help, also after the context ended; otherwise Internal. A unique violation is Internal, too: write ON CONFLICT, or
// ask IsState. An error of a callback keeps its own code, and is Internal without one; errors.Is finds it either way.
//
// Frequent operations call SQL functions: one statement, one transaction, one round trip. Tx is for the others.
//
// Behind PgBouncer in transaction mode without prepared statements, the URL needs default_query_exec_mode=exec.
// Nothing depends on session state.
package pgdb
