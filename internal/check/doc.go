// Package check finds problems with a server's configuration, files, secrets, databases, addresses and backups. It
// changes nothing and knows no service.
package check
