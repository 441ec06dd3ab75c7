// Package httpapi implements the HTTP API of extension storage: JSON over HTTP.
//
// A request passes these steps: preflights (cors.go), route and method from the
// raw path (route.go), the token (auth.go), rate limits (rates.go), query and
// headers (query.go, headers.go), the body, which is read whole up to a limit and
// parsed strictly (body.go, decode.go), and the use case (record.go, listing.go,
// bulk.go, changes.go, usage.go, schemas.go). One function writes all errors
// (errors.go). Export and import are streams (export.go, import.go).
//
// The same use cases serve two listeners: Handler the public one, and Runner the
// internal one, to which services send an envelope (runner.go). What operators do is
// declared in internal/app/ext.
//
// The envelope of a body is split by handwritten code (decode.go). Finding the end
// of a put's value is on the hot path: encoding/json takes six times as long for 1
// KB and would parse the value, which package canonjson parses anyway. canonjson
// parses everything in the envelope.
//
// openapi.json, which the server serves, describes requests and responses.
package httpapi
