// Package schemas validates records by extensions' schemas.
package schemas

import (
	"context"
	"errors"
	"os/exec"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/jsonschema"
)

// Validator implements extstorage's validator with package jsonschema. It is safe for concurrent use.
type Validator struct {
	cache   *jsonschema.Cache
	sandbox *jsonschema.Sandbox
}

// NewValidator limits the cache of compiled schemas to bytes. command starts a subprocess that tries new schemas.
func NewValidator(bytes int, command func(context.Context) *exec.Cmd) *Validator {
	return &Validator{jsonschema.NewCache(bytes), jsonschema.NewSandbox(command)}
}

// Cache returns numbers for metrics.
func (v *Validator) Cache() jsonschema.CacheStats { return v.cache.Stats() }

// MemoryBytes returns the maximum memory for compiled schemas, including those being compiled.
func (v *Validator) MemoryBytes() int64 {
	return int64(v.cache.Stats().Capacity + jsonschema.Compilations*jsonschema.CompileMemory)
}

// Validate checks a value against a registered schema, which it compiles if it is not cached. The error is
// errcode.Invalid if the schema itself breaks today's limits.
func (v *Validator) Validate(ctx context.Context, tenant ext.TenantID, document []byte, value canonjson.Value) error {
	e, err := v.cache.Acquire(ctx, string(tenant), document)
	if e, ok := errors.AsType[*jsonschema.Error](err); ok {
		// It was registered under other limits.
		return errcode.New(errcode.Invalid, "the active schema cannot be used because it "+e.Reason+": activate another version or deprecate it")
	}
	if err != nil {
		return err
	}
	defer v.cache.Release(e)
	return e.Schema.Validate(ctx, value)
}

// Check checks a document before it is registered.
func (v *Validator) Check(document []byte) error { return jsonschema.Check(document) }

// Trial tries a schema on samples in a subprocess, since a hostile schema may take long.
func (v *Validator) Trial(ctx context.Context, document []byte, samples [][]byte) error {
	return v.sandbox.Trial(ctx, document, samples)
}

// Compatible describes how a new version differs.
func (v *Validator) Compatible(before, after []byte) (ext.Compatibility, error) {
	report, err := jsonschema.Compatible(before, after)
	c := ext.Compatibility{Effect: report.Effect().String(), Changes: make([]ext.SchemaChange, 0, len(report))}
	for _, change := range report {
		c.Changes = append(c.Changes, ext.SchemaChange{Pointer: change.Pointer, Change: change.Change, Effect: change.Effect.String()})
	}
	return c, err
}
