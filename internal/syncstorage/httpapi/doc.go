// Package httpapi speaks the SyncStorage API 1.5.
//
// A request goes: clients that must not be answered (useragent.go), preflights
// (cors.go), route from the raw path (route.go), credentials (auth.go),
// precondition (headers.go), the resource's action (info.go, configuration.go,
// listing.go, post.go, bso.go, delete.go), and every error through one writer
// (errors.go). Errors are a bare integer as JSON; numbers that are moments have
// two decimals.
//
// Bodies are read with jx, token by token (decode.go, object.go): a first sync is
// thousands of records, encoding/json takes twice the CPU for them, and only a
// reader of tokens can list one bad record of a hundred as failed.
//
// Beside the service's own paths there are those at the root of the server, which
// load balancers and monitors of a sync server ask (dockerflow.go).
package httpapi
