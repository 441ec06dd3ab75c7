package extstorage

import (
	"errors"

	"holdfast/internal/canonjson"
	"holdfast/internal/jsonschema"
)

// ValidationError means that part of a request, or a write's result, is not valid. Its JSON Pointer refers to the
// request body.
type ValidationError = canonjson.Error

// LimitError means that part of a request is too large.
type LimitError = canonjson.LimitError

// MaxSchemaFailures limits the failures in a SchemaError.
const MaxSchemaFailures = jsonschema.MaxSchemaFailures

// SchemaFailure is a reason why a schema rejects a value.
type SchemaFailure = jsonschema.SchemaFailure

type SchemaError = jsonschema.SchemaError

// Under prefixes an error's pointer with an enclosing location.
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

// PointerOf returns the error's location in the request, if any.
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

// MessageOf returns an error's text for the client, which also names the member that a value lacks.
func MessageOf(err error) string {
	if e, ok := errors.AsType[*SchemaError](err); ok {
		return e.Failures[0].Message()
	}
	return err.Error()
}

func refuse(reason string) *ValidationError { return &ValidationError{Reason: reason} }

// Lack returns the error for an object that lacks a member. hint, if not "", describes the member.
func Lack(name, hint string) *ValidationError {
	if hint != "" {
		hint = ": " + hint
	}
	return refuse("lacks the member " + name + hint)
}

// ParseMetadata parses a JSON object.
func ParseMetadata(text []byte, limit int) (canonjson.Value, error) {
	v, err := canonjson.Parse(text, limit)
	if err == nil && v[0] != '{' {
		return "", refuse("must be a JSON object")
	}
	return v, err
}
