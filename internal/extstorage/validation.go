package extstorage

import (
	"errors"
	"slices"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
)

// ValidationError means that a part of a request is not valid: a name, a number, a
// value, or the result of a write. Its pointer is the place in the request.
type ValidationError = canonjson.Error

// LimitError means that a part of a request is too large.
type LimitError = canonjson.LimitError

// MaxSchemaFailures is the maximum number of failures in a SchemaError.
const MaxSchemaFailures = 20

// SchemaFailure is one reason why a schema rejects a value.
type SchemaFailure struct {
	Pointer  string // location in the request that the value comes from
	Location string // location in the value as it would be stored (RFC 6901)
	Keyword  string // the failed keyword of the schema, such as "maximum"; "": none
	Bound    string // the schema's JSON under the keyword; "": too long, or no keyword
	Reason   string // completes a sentence, as in ValidationError
}

// SchemaError means that a schema rejects a value. It has at least one failure, in
// order of location.
type SchemaError struct{ Failures []SchemaFailure }

func (e *SchemaError) Error() string { return e.Failures[0].Reason }

// ErrorCode implements errcode.Coder.
func (*SchemaError) ErrorCode() errcode.Code { return errcode.Invalid }

// moved returns a copy of the error with other pointers.
func (e *SchemaError) moved(to func(*SchemaFailure) string) *SchemaError {
	m := &SchemaError{slices.Clone(e.Failures)}
	for i := range m.Failures {
		m.Failures[i].Pointer = to(&m.Failures[i])
	}
	return m
}

// Under prefixes the pointer of an error with the location of the part that was
// checked. It returns errors without a pointer unchanged, and wrapped errors too,
// which have the full pointer already.
func Under(pointer string, err error) error {
	switch e := err.(type) { //nolint:errorlint // as said above
	case *ValidationError:
		return e.Under(pointer)
	case *LimitError:
		return e.Under(pointer)
	case *canonjson.BoundError:
		return e.Under(pointer)
	case *SchemaError:
		return e.moved(func(f *SchemaFailure) string { return pointer + f.Pointer })
	}
	return err
}

// PointerOf returns the location in the request that an error is about, if it has
// one.
func PointerOf(err error) (pointer string, ok bool) {
	if e, ok := errors.AsType[*ValidationError](err); ok {
		return e.Pointer, true
	}
	if e, ok := errors.AsType[*LimitError](err); ok {
		return e.Pointer, true
	}
	if e, ok := errors.AsType[*canonjson.BoundError](err); ok {
		return e.Pointer, true
	}
	if e, ok := errors.AsType[*SchemaError](err); ok {
		return e.Failures[0].Pointer, true
	}
	return "", false
}

func refuse(reason string) *ValidationError { return &ValidationError{Reason: reason} }

// ParseMetadata parses metadata, a JSON object.
func ParseMetadata(text []byte, limit int) (canonjson.Value, error) {
	v, err := canonjson.Parse(text, limit)
	if err == nil && v[0] != '{' {
		return "", refuse("must be a JSON object")
	}
	return v, err
}
