// Package httpapi implements the SyncStorage API 1.5, and the paths that load balancers and monitors expect from a
// sync server (dockerflow.go).
//
// Requests are checked by user agent (useragent.go), routed by raw path (route.go), authenticated (auth.go), and
// checked against their precondition (headers.go) before an action runs. Errors are a bare integer as JSON;
// timestamps have two decimals.
//
// Bodies are parsed with jx, token by token (decode.go, object.go): for a first sync's thousands of records
// encoding/json takes twice the CPU time, and only a token-based parser can report a bad record among a hundred as
// failed.
package httpapi
