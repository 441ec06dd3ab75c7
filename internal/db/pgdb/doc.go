// Package pgdb opens PostgreSQL databases, version 15 or newer.
//
// Every statement has a name for metrics, and every error has a code of package errcode, derived from its SQLSTATE.
// Frequent operations call SQL functions: one statement, one transaction, one round trip. Tx is for the others.
//
// Behind PgBouncer in transaction mode without prepared statements, the URL needs default_query_exec_mode=exec.
// Nothing depends on session state.
package pgdb
