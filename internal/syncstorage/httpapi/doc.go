// Package httpapi speaks the SyncStorage API 1.5.
//
// A request goes: preflight and old clients (client.go), route from the raw
// path (route.go), credentials (auth.go), the resource's handler (info.go,
// collection.go, bso.go), and every error through one writer (errors.go).
// Errors are a bare integer as JSON; numbers that are moments have two
// decimals.
package httpapi
