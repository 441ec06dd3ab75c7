// Package backup copies a running server's data: SQLite databases, the secrets file, and the services' other files.
// It records backups in the data folder. Package check verifies them.
package backup
