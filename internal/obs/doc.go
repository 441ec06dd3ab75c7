// Package obs provides logs, metrics and traces. There are no globals: observers are passed to the observed code.
package obs
