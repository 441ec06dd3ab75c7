// Package replication keeps the replica of a server: its SQLite files, the secrets file and the files of services, in a
// folder or a bucket. Package replica does the work; this package knows the data folder and the services.
package replication
