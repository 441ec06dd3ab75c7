// Package overview has the pages of the console about the server itself: its state with charts of the last week, checks,
// sweeps and settings. Package console is their frame. It also declares the operations of the server itself, which make services
// read-only.
package overview
