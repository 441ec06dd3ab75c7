// Package httpapi speaks the service's protocol: JSON over HTTP.
//
// A request goes: preflights (cors.go), route and method from the raw path
// (route.go), the token (auth.go), the rates (rates.go), query and header
// (query.go, headers.go), the body, which is read whole up to a bound and taken
// apart strictly (body.go, decode.go), the use case (record.go, listing.go,
// bulk.go, changes.go, usage.go, schemas.go), and every error through one writer
// (errors.go). Export and import are streams (export.go, import.go).
//
// The same use cases serve three listeners: Handler the public one, Runner the
// internal one, on which a service sends an envelope (runner.go), and Admin that
// of operators, who register and revoke installs (admin.go).
//
// The envelope of a body is split by hand (decode.go): finding where the value of
// a put ends is on the hot path, where encoding/json takes six times as long for
// 1 KB and would read the value that package canonjson reads anyway. Everything
// in the envelope is read by canonjson.
//
// What is sent and answered is described in openapi.json, which is served.
package httpapi
