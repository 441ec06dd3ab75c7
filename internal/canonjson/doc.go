// Package canonjson parses JSON (RFC 8259) into a canonical form and operates on it: exact decimal numbers, JSON
// Pointer (RFC 6901), JSON Merge Patch (RFC 7396), and increments inside a value.
//
// Canonical values are equal if and only if their bytes are. So sizes, comparisons and hashes are the same on every
// engine, and a merge reads both texts in one pass without building a tree.
//
// Unlike the JSON Canonicalization Scheme (RFC 8785), it preserves stored data: numbers keep their exact decimal
// value, and members are ordered like PostgreSQL's jsonb. See [Value].
//
// The parser is handwritten because encoding/json and streaming parsers accept duplicate names, lone surrogates and
// invalid UTF-8, lose number spellings or error positions, and build a tree to be serialized again.
// docs/decisions/0012 contains the measurements.
package canonjson
