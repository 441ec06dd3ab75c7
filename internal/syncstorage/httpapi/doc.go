// Package httpapi implements the SyncStorage API 1.5, and the paths that load balancers and monitors expect from a
// sync server (dockerflow.go).
//
// Bodies are parsed with jx, token by token (decode.go, object.go): for a first sync's thousands of records
// encoding/json takes twice the CPU time, and only a token-based parser can report a bad record among a hundred as
// failed.
package httpapi
