// Package overview provides the console pages about the server itself and the server's own operations, e.g. making
// services read-only.
package overview
