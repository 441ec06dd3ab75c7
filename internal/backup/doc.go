// Package backup copies the data of a server while it runs: SQLite databases, the secrets file, and the files that services
// store outside of their databases. It records backups in the data folder. Package check verifies them.
package backup
