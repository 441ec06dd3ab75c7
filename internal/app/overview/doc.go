// Package overview provides the console pages about the server itself (state, charts, checks, sweeps, settings) and
// the server's own operations, e.g. making services read-only.
package overview
