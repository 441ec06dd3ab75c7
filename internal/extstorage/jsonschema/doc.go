// Package jsonschema checks values by the JSON Schemas of extensions, which are
// written by strangers.
//
// The dialect is Draft 2020-12 and nothing else; what a keyword means is the
// library's business (github.com/santhosh-tekuri/jsonschema/v6). This package
// keeps it from being hurt by a schema or by a value:
//
//   - [Check] refuses at registration what is too large, too deep, refers to
//     anything outside the document, or grows when its references are written
//     out.
//   - A [Schema] counts the steps of a validation and ends it at [MaxSteps]:
//     the library cannot be interrupted, and alternatives that each describe
//     the same member double their work with every level of a value.
//   - A [Sandbox] tries a new schema in a process that can be killed.
//   - A [Cache] compiles a document once, by its hash: what one tenant names
//     `$id` is nothing to another. It has a budget of bytes, which are measured,
//     and tenants have shares of it.
//
// `format`, `contentEncoding`, `contentMediaType` and `contentSchema` are
// annotations, as Draft 2020-12 has them by default: they refuse nothing. A
// `pattern` is an expression of RE2, which runs in linear time; what only
// ECMA-262 has, lookahead for one, is refused with the place.
//
// Numbers have their exact decimal value throughout.
package jsonschema

import "holdfast/internal/canonjson"

// What a schema document may be, and why is in docs/decisions.
const (
	MaxBytes      = 64 << 10 // of the document
	MaxDepth      = canonjson.MaxDepth
	MaxSubschemas = 2_000   // in the document
	MaxPointers   = 1 << 20 // bytes of the pointers to all subschemas: the library keeps several of each
	MaxPattern    = 10_000  // instructions of all regular expressions together
	MaxRanges     = 500_000 // ranges of all their character classes together
	MaxInPlace    = 1_000   // subschemas that one value is validated against, references followed
	MaxWrittenOut = 50_000  // subschemas when every reference is written out, recursion once

	// MaxCompiled is the bytes of a compiled schema. What people write takes 100
	// times its document at most: 6 MB.
	MaxCompiled = 8 << 20

	// MaxSteps is what one validation may take: roughly one for each subschema
	// that is held against each value in the value. It is half a second or so
	// on a slow core; the largest value against a plain schema takes a tenth.
	MaxSteps = 400_000
)
