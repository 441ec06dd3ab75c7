package jsonschema

import (
	"slices"

	"holdfast/internal/errcode"
)

// MaxSchemaFailures is the maximum number of failures in a SchemaError.
const MaxSchemaFailures = 20

// SchemaFailure is one reason why a schema rejects a value.
type SchemaFailure struct {
	Pointer  string // location in the request that the value comes from
	Location string // location in the value as it would be stored (RFC 6901)
	Keyword  string // the failed keyword of the schema, such as "maximum"; "": none
	Bound    string // the schema's JSON under the keyword; "": too long, or no keyword
	Reason   string // completes a sentence
}

// SchemaError means that a schema rejects a value. It has at least one failure, in
// order of location.
type SchemaError struct{ Failures []SchemaFailure }

func (e *SchemaError) Error() string { return e.Failures[0].Reason }

// ErrorCode implements errcode.Coder.
func (*SchemaError) ErrorCode() errcode.Code { return errcode.Invalid }

// Moved returns a copy of the error with other pointers.
func (e *SchemaError) Moved(to func(*SchemaFailure) string) *SchemaError {
	m := &SchemaError{slices.Clone(e.Failures)}
	for i := range m.Failures {
		m.Failures[i].Pointer = to(&m.Failures[i])
	}
	return m
}
