package jsonschema

import (
	"slices"

	"holdfast/internal/errcode"
	"holdfast/internal/optional"
)

// MaxSchemaFailures limits a SchemaError.
const MaxSchemaFailures = 20

// SchemaFailure is a location in a value and why it does not match.
type SchemaFailure struct {
	Pointer  string // in the request
	Location string // in the value, which contains it (RFC 6901)
	Keyword  string // e.g. "maximum", or ""
	Bound    string // JSON under the keyword; "" if too long, or without a keyword
	Reason   string // completes a sentence; never quotes the value or the schema

	// Missing is the name of the member that the object at Location lacks, if that is why it does not match.
	Missing optional.Of[string]
}

// maxMissing is the length of the longest name in a message, in bytes.
const maxMissing = 200

// Message returns Reason with the name of the missing member, for the client whose schema it is.
func (f *SchemaFailure) Message() string {
	if !f.Missing.Set || len(f.Missing.Value) > maxMissing {
		return f.Reason
	}
	return f.Reason + ": " + f.Missing.Value
}

// Excludes reports whether the schema accepts no value at all at Location, e.g. an additional member.
func (f *SchemaFailure) Excludes() bool {
	return f.Keyword != "contains" && slices.ContainsFunc(schemaKeywords, func(k schemaKeyword) bool {
		return k.keyword == f.Keyword && k.reach == onInside
	})
}

// SchemaError means that a schema rejects a value. Failures are ordered by location.
type SchemaError struct{ Failures []SchemaFailure }

func (e *SchemaError) Error() string { return e.Failures[0].Reason }

func (*SchemaError) ErrorCode() errcode.Code { return errcode.Invalid }

// Moved returns a copy in which to determines each pointer.
func (e *SchemaError) Moved(to func(*SchemaFailure) string) *SchemaError {
	m := &SchemaError{slices.Clone(e.Failures)}
	for i := range m.Failures {
		m.Failures[i].Pointer = to(&m.Failures[i])
	}
	return m
}
