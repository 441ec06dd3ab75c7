// Package obs provides logs, metrics and traces.
package obs
