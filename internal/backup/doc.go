// Package backup copies a running server's data: SQLite databases, the secrets file, and the services' other files.
package backup
