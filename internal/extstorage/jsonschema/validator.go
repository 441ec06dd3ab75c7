package jsonschema

import (
	"context"
	"errors"
	"os/exec"

	"holdfast/internal/canonjson"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/fault"
)

// Validator is this package as extension storage needs it: it implements
// ext.Validators and ext.Documents.
type Validator struct {
	cache   *Cache
	sandbox *Sandbox
}

// NewValidator makes a validator that keeps compiled schemas of so many bytes, as
// NewCache does, and tries new ones by a command, as NewSandbox does.
func NewValidator(bytes int, command func(context.Context) *exec.Cmd) *Validator {
	return &Validator{NewCache(bytes), NewSandbox(command)}
}

// Cache returns the state of the cache of compiled schemas.
func (v *Validator) Cache() CacheStats { return v.cache.Stats() }

// MemoryBytes is the most memory that the validator takes: compiled schemas, and those
// that are being compiled.
func (v *Validator) MemoryBytes() int64 {
	return int64(v.cache.Stats().Capacity + Compilations*CompileMemory)
}

// Validate implements ext.Validators.
func (v *Validator) Validate(ctx context.Context, tenant ext.TenantID, document []byte, value canonjson.Value) error {
	e, err := v.cache.Acquire(ctx, string(tenant), document)
	if e, ok := errors.AsType[*Error](err); ok {
		// It was registered when the limits were others.
		return fault.New(fault.Invalid, "the active schema cannot be used because it "+e.Reason+": activate another version or deprecate it")
	}
	if err != nil {
		return err
	}
	defer v.cache.Release(e)
	return e.Schema.Validate(ctx, value)
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
