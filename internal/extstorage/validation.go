package extstorage

import (
	"errors"

	"holdfast/internal/canonjson"
	"holdfast/internal/jsonschema"
)

// ValidationError means that a part of a request is not valid: a name, a number, a
// value, or the result of a write. Its pointer is the place in the request.
type ValidationError = canonjson.Error

// LimitError means that a part of a request is too large.
type LimitError = canonjson.LimitError

// MaxSchemaFailures is the maximum number of failures in a SchemaError.
const MaxSchemaFailures = jsonschema.MaxSchemaFailures

// SchemaFailure is one reason why a schema rejects a value.
type SchemaFailure = jsonschema.SchemaFailure

// SchemaError means that a schema rejects a value.
type SchemaError = jsonschema.SchemaError

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
		return e.Moved(func(f *SchemaFailure) string { return pointer + f.Pointer })
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
