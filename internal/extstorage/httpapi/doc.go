// Package httpapi implements the JSON API of extension storage.
//
// A request passes CORS preflight (cors.go), routing by raw path (route.go), the token (auth.go), rate limits
// (rates.go), query and headers (query.go, headers.go), and strict parsing of the whole body (body.go, decode.go).
// Then an action runs: record.go, listing.go, bulk.go, changes.go, usage.go or schemas.go. Export and import are
// streams (export.go, import.go). errors.go writes all errors. Handler serves the public listener; Runner serves the
// same actions to services on the internal listener, wrapped in an envelope.
//
// decode.go splits request objects by hand. For a 1 KB put encoding/json takes six times as long, and it would parse
// the value, which canonjson parses anyway.
//
// openapi.json describes requests and responses.
package httpapi
