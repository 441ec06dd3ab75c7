// Package obs has the log, metrics and traces of the server. There are no globals:
// observers are passed to the code that they observe.
package obs
