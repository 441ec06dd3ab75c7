// Package obs is how an operator sees what the server does: log, metrics and
// traces. There are no globals: what observes is handed to what is observed.
package obs
