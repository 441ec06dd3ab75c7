// Package httpapi implements the SyncStorage API 1.5.
//
// A request passes these steps: clients that must not be answered (useragent.go),
// preflights (cors.go), route from the raw path (route.go), credentials (auth.go),
// precondition (headers.go), and the resource's action (info.go, configuration.go,
// listing.go, post.go, bso.go, delete.go). One function writes all errors
// (errors.go). Errors are a bare integer as JSON; timestamps have two decimals.
//
// Bodies are parsed with jx, token by token (decode.go, object.go): a first sync
// has thousands of records, for which encoding/json takes twice the CPU time, and
// only a token-based parser can report one bad record of a hundred as failed.
//
// The package also serves the paths at the root of the server that load balancers
// and monitors of a sync server request (dockerflow.go).
package httpapi
