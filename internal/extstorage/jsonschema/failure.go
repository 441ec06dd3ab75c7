package jsonschema

import (
	"slices"

	"holdfast/internal/canonjson"
)

// Error is what is wrong with a schema document or with a value.
type Error = canonjson.Error

// pointer is a place in a JSON text. Tokens are added to a clipped slice, so a
// pointer never changes under who keeps it.
type pointer canonjson.Pointer

func (p pointer) add(tokens ...string) pointer { return append(slices.Clip(p), tokens...) }

func (p pointer) refuse(reason string) *Error { return &Error{Pointer: p.String(), Reason: reason} }

func (p pointer) String() string { return canonjson.Pointer(p).String() }
