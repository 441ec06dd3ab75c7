// Package jsonschema validates values by untrusted JSON Schemas, such as schemas from extensions.
//
// The only dialect is Draft 2020-12. The library (github.com/santhosh-tekuri/jsonschema/v6) implements the keywords;
// this package protects it from hostile schemas and values:
//
//   - [Check] rejects schemas that are too large or deep, refer to other documents, or grow when references are
//     expanded.
//   - A [Schema] ends a validation after [MaxSteps]: the library cannot be interrupted, and alternatives describing
//     the same member double their work per level.
//   - A [Sandbox] tries new schemas in a killable process.
//   - A [Cache] compiles each document once, by hash, so that tenants' `$id`s are independent.
//
// `format`, `contentEncoding`, `contentMediaType` and `contentSchema` are only annotations, the default in Draft
// 2020-12. A `pattern` is an RE2 expression, which runs in linear time; other ECMA-262 features, such as lookahead,
// are rejected. Numbers keep their exact decimal value.
package jsonschema

import "holdfast/internal/canonjson"

// Limits for a schema document; docs/decisions explains them.
const (
	MaxBytes      = 64 << 10
	MaxDepth      = canonjson.MaxDepth
	MaxSubschemas = 2_000
	MaxPointers   = 1 << 20 // bytes for all subschemas; the library keeps several copies
	MaxPattern    = 10_000  // instructions in all regular expressions
	MaxRanges     = 500_000 // in all their character classes
	MaxInPlace    = 1_000   // subschemas validated against a value, through references
	MaxWrittenOut = 50_000  // subschemas with references expanded, recursion once

	// MaxCompiled limits a compiled schema, in bytes. Real schemas take at most 100 times their document: 6 MB.
	MaxCompiled = 8 << 20

	// MinSchemaMemory is the minimum Cache budget: two compiled schemas of maximum size.
	MinSchemaMemory = 2 * MaxCompiled

	// MaxSteps limits a validation: about a step per pair of subschema and nested value. It takes half a second on a
	// slow core; the largest value with a plain schema takes a tenth of a second.
	MaxSteps = 400_000
)
