// Package canonjson parses JSON (RFC 8259) into a canonical form with exact decimal numbers, and operates on it by
// JSON Pointer (RFC 6901), JSON Merge Patch (RFC 7396), and increments.
//
// Canonical values are equal if and only if their bytes are, so sizes, comparisons and hashes are the same on every
// engine, and merges need no tree. Unlike in the JSON Canonicalization Scheme (RFC 8785), numbers are exact and
// members are ordered like in PostgreSQL's jsonb.
//
// The parser is handwritten: others accept duplicate names, lone surrogates and invalid UTF-8, lose number spellings
// or error positions, or build a tree. docs/decisions/0012 contains measurements.
package canonjson
