// Package httpapi implements the JSON API of extension storage.
//
// Handler serves the public listener; Runner serves the same actions to services on the internal listener, wrapped in
// an envelope. openapi.json describes both.
//
// decode.go splits request objects by hand. For a 1 KB put encoding/json takes six times as long, and it would parse
// the value, which canonjson parses anyway.
package httpapi
