package jsonschema

import (
	"slices"

	"holdfast/internal/canonjson"
)

// Error reports an invalid schema document or value.
type Error = canonjson.Error

// pointer appends tokens to clipped slices, so stored pointers never change.
type pointer canonjson.Pointer

func (p pointer) add(tokens ...string) pointer { return append(slices.Clip(p), tokens...) }

func (p pointer) refuse(reason string) *Error { return &Error{Pointer: p.String(), Reason: reason} }

func (p pointer) String() string { return canonjson.Pointer(p).String() }
