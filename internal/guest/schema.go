package guest

import (
	"context"
	"errors"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
	"holdfast/internal/jsonschema"
)

// schema is a compiled JSON Schema, safe for concurrent use.
type schema struct{ compiled *jsonschema.Schema }

// CheckSchema rejects text that is not a supported JSON Schema (Draft 2020-12).
func CheckSchema(text []byte) error {
	_, err := parseSchema(text)
	return err
}

// parseSchema compiles a schema.
func parseSchema(text []byte) (*schema, error) {
	compiled, err := jsonschema.Compile(text)
	return &schema{compiled}, err
}

// validate returns FieldErrors with errcode.Invalid on a mismatch. Pointers are relative to the value.
func (s *schema) validate(ctx context.Context, value canonjson.Value) error {
	err := s.compiled.Validate(ctx, value)
	refused, ok := errors.AsType[*jsonschema.SchemaError](err)
	if !ok {
		return err
	}
	fields := make(FieldErrors, len(refused.Failures))
	for i, f := range refused.Failures {
		fields[i] = FieldError{Pointer: f.Pointer, Code: CodeInvalid, Detail: f.Message()}
	}
	return errcode.Wrap(errcode.Invalid, fields.Error(), fields)
}
