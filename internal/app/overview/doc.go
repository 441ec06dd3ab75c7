// Package overview has the pages of the console about the server itself: its state with charts of the last hours, checks,
// sweeps, read-only services and settings. Package console is their frame.
package overview
