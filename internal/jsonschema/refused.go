package jsonschema

import (
	"slices"

	"holdfast/internal/errcode"
)

// MaxSchemaFailures limits a SchemaError.
const MaxSchemaFailures = 20

// SchemaFailure is a location in a value and why it does not match.
type SchemaFailure struct {
	Pointer  string // in the request
	Location string // in the stored value (RFC 6901)
	Keyword  string // e.g. "maximum", or ""
	Bound    string // JSON under the keyword; "" if too long, or without a keyword
	Reason   string // completes a sentence
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
