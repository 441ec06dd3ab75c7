// Package jsonschema validates values by JSON Schemas, which may be untrusted: those of
// extensions are.
//
// The only dialect is Draft 2020-12. The library
// (github.com/santhosh-tekuri/jsonschema/v6) implements the keywords. This package
// protects it from hostile schemas and values:
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
// annotations, as is the default of Draft 2020-12: they reject nothing. A
// `pattern` is an RE2 expression, which runs in linear time; ECMA-262 features
// that RE2 lacks, such as lookahead, are rejected with their location.
//
// Numbers keep their exact decimal value.
package jsonschema

import "holdfast/internal/canonjson"

// Limits of a schema document. docs/decisions has the reasons.
const (
	MaxBytes      = 64 << 10 // of the document
	MaxDepth      = canonjson.MaxDepth
	MaxSubschemas = 2_000   // in the document
	MaxPointers   = 1 << 20 // bytes of the pointers to all subschemas; the library keeps several copies of each
	MaxPattern    = 10_000  // instructions of all regular expressions together
	MaxRanges     = 500_000 // ranges of all their character classes together
	MaxInPlace    = 1_000   // subschemas that one value is validated against, references followed
	MaxWrittenOut = 50_000  // subschemas with every reference expanded, recursion once

	// MaxCompiled is the maximum size of a compiled schema in bytes. Real schemas
	// take at most 100 times their document: 6 MB.
	MaxCompiled = 8 << 20

	// MinSchemaMemory is the minimum budget of a Cache: two of the largest compiled schemas.
	MinSchemaMemory = 2 * MaxCompiled

	// MaxSteps is the maximum number of steps of a validation: roughly one for each
	// pair of a subschema and a nested value that it applies to. It takes about
	// half a second on a slow core; the largest value with a plain schema takes a
	// tenth of it.
	MaxSteps = 400_000
)
