package extstorage

import (
	"errors"
	"slices"

	"holdfast/internal/canonjson"
	"holdfast/internal/fault"
)

// ValidationError is something in a request that is not as it must be: a name, a
// number, a value, a result. Its pointer leads to the place in the request.
type ValidationError = canonjson.Error

// LimitError is something in a request that is larger than it may be.
type LimitError = canonjson.LimitError

// MaxSchemaFailures is how many failures a SchemaError has at most.
const MaxSchemaFailures = 20

// SchemaFailure is one reason why a schema refuses a value.
type SchemaFailure struct {
	Pointer  string // to the place in the request that the value has it from
	Location string // the place in the value, as it would be stored: RFC 6901
	Keyword  string // of the schema that does not hold, such as "maximum"; "": none
	Bound    string // what the schema has under the keyword, in JSON; "": it is long, or there is no keyword
	Reason   string // half a sentence, as that of ValidationError
}

// SchemaError is a value that a schema refuses, with the failures in the order of
// their locations; there is at least one.
type SchemaError struct{ Failures []SchemaFailure }

func (e *SchemaError) Error() string { return e.Failures[0].Reason }

// FaultCode implements fault.Coder.
func (*SchemaError) FaultCode() fault.Code { return fault.Invalid }

// moved is the error with other pointers.
func (e *SchemaError) moved(to func(*SchemaFailure) string) *SchemaError {
	m := &SchemaError{slices.Clone(e.Failures)}
	for i := range m.Failures {
		m.Failures[i].Pointer = to(&m.Failures[i])
	}
	return m
}

// Under puts what is wrong with a part of a request to the place of the part. Errors
// that have no place stay as they are, and so do those that are wrapped, which
// have their place already.
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

// PointerOf is the place in the request that an error is about, if it has one.
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

// ParseMetadata reads metadata, which is an object.
func ParseMetadata(text []byte, limit int) (canonjson.Value, error) {
	v, err := canonjson.Parse(text, limit)
	if err == nil && v[0] != '{' {
		return "", refuse("must be a JSON object")
	}
	return v, err
}
