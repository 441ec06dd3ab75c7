// Package replication maintains a server's replica in a folder or bucket. Package replica does the work; this package
// knows the data folder and the services.
package replication
