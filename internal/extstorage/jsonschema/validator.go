package jsonschema

import (
	"context"
	"os/exec"

	"holdfast/internal/canonjson"
	ext "holdfast/internal/extstorage"
)

// Validator is this package as extension storage needs it: it implements
// ext.Validators and ext.Documents.
type Validator struct {
	cache   *Cache
	sandbox *Sandbox
}

// NewValidator makes a validator that keeps schemas of so many bytes compiled, as
// NewCache does, and tries new ones by a command, as NewSandbox does.
func NewValidator(bytes int, command func(context.Context) *exec.Cmd) *Validator {
	return &Validator{NewCache(bytes), NewSandbox(command)}
}

// Validate implements ext.Validators.
func (v *Validator) Validate(document []byte, value canonjson.Value) error {
	s, err := v.cache.Schema(document)
	if err != nil {
		return err
	}
	return s.Validate(value)
}

// Check implements ext.Documents.
func (v *Validator) Check(document []byte) error { return Check(document) }

// Trial implements ext.Documents.
func (v *Validator) Trial(ctx context.Context, document []byte, samples [][]byte) error {
	return v.sandbox.Trial(ctx, document, samples)
}

// Compatible implements ext.Documents.
func (v *Validator) Compatible(before, after []byte) (ext.Compatibility, error) {
	report, err := Compatible(before, after)
	c := ext.Compatibility{Effect: report.Effect().String(), Changes: make([]ext.SchemaChange, 0, len(report))}
	for _, change := range report {
		c.Changes = append(c.Changes, ext.SchemaChange{Pointer: change.Pointer, Change: change.Change, Effect: change.Effect.String()})
	}
	return c, err
}
