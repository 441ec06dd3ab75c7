// Package obs provides logs, metrics and traces. There are no globals.
package obs
