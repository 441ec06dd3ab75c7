// Package canonjson reads JSON texts (RFC 8259) into one canonical form, and
// works on that form: exact decimal numbers, JSON Pointer (RFC 6901), JSON Merge
// Patch (RFC 7396), and adding to a number in a value.
//
// In canonical form two values are equal if and only if their bytes are. So a
// size, a comparison and a hash are those of the value, on every engine, and a
// merge walks through two texts in one pass without a tree of either.
//
// The form has the purpose of the JSON Canonicalization Scheme (RFC 8785), and
// differs where that would change what engines store: numbers keep their exact
// decimal value instead of being rounded to binary floating point, and members
// have the order of PostgreSQL's jsonb instead of that of UTF-16. See [Value].
//
// The parser is written by hand because encoding/json and the streaming parsers
// accept what must be refused here (duplicate names, lone surrogates, invalid
// UTF-8), lose the spelling of numbers or the place of an error, and build a tree
// that is then written out again. docs/decisions/0012 has the measurements.
package canonjson
