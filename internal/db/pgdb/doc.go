// Package pgdb opens PostgreSQL databases, version 15 or newer, for the services.
//
// Every statement has a name for its metrics. Every returned error has a code of package
// errcode, determined by SQLSTATE. A frequent operation of a service is one statement, a
// call of one of its functions, so it is one transaction and one round trip. Tx is for all
// others.
//
// The driver is pgx with its native protocol and its pool. The URL may have every form of
// libpq: host names, Unix sockets with peer authentication, key=value pairs. Behind a
// PgBouncer in transaction mode without prepared statements, the URL needs
// default_query_exec_mode=exec. Nothing here depends on session state.
package pgdb
