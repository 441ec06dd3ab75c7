// Package pgdb opens PostgreSQL, version 15 or newer, for the services.
//
// Every statement has a name, under which it is timed, and every error that
// leaves the package carries a code of package fault, found by SQLSTATE. A
// service's hot step is one statement, a call of one of its functions, so it is
// its own transaction and costs one round trip; Tx is for the others.
//
// The driver is pgx with its native protocol and its pool. The URL says how to
// reach the server in every form that libpq knows: host names, Unix sockets
// with peer authentication, key=value pairs. Behind a PgBouncer in transaction
// mode that keeps no prepared statements, the URL carries
// default_query_exec_mode=exec; nothing here depends on the state of a
// session.
package pgdb
