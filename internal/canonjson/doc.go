// Package canonjson parses JSON texts (RFC 8259) into a canonical form and
// operates on that form: exact decimal numbers, JSON Pointer (RFC 6901), JSON
// Merge Patch (RFC 7396), and incrementing a number inside a value.
//
// In canonical form two values are equal if and only if their bytes are equal. So
// sizes, comparisons and hashes are the same on every engine, and a merge reads
// both texts in one pass without building a tree.
//
// The form serves the same purpose as the JSON Canonicalization Scheme (RFC 8785).
// It differs where that scheme would change stored data: numbers keep their exact
// decimal value instead of being rounded to binary floating point, and members are
// in the order of PostgreSQL's jsonb instead of UTF-16 order. See [Value].
//
// The parser is handwritten because encoding/json and the streaming parsers accept
// input that must be rejected here (duplicate names, lone surrogates, invalid
// UTF-8), lose the spelling of numbers or the position of an error, and build a
// tree that would have to be serialized again. docs/decisions/0012 has the
// measurements.
package canonjson
