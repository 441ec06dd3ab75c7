package jsonschema

import (
	"context"
	"errors"
	"os/exec"

	ext "holdfast/internal/extstorage"
)

// Judges are this package as the room's service wants it: ext.Validators and
// ext.Documents.
type Judges struct {
	cache   *Cache
	sandbox *Sandbox
}

// NewJudges makes judges that keep schemas of so many bytes compiled, as NewCache
// does, and try new ones by a command, as NewSandbox does.
func NewJudges(bytes int, command func(context.Context) *exec.Cmd) *Judges {
	return &Judges{NewCache(bytes), NewSandbox(command)}
}

// Validate implements ext.Validators.
func (j *Judges) Validate(document []byte, v ext.Value) error {
	s, err := j.cache.Schema(document)
	if err != nil {
		return refused(err)
	}
	return refused(s.Validate([]byte(v)))
}

// Check implements ext.Documents.
func (j *Judges) Check(document []byte) error { return refused(Check(document)) }

// Trial implements ext.Documents.
func (j *Judges) Trial(ctx context.Context, document []byte, samples [][]byte) error {
	return refused(j.sandbox.Trial(ctx, document, samples))
}

// Compatible implements ext.Documents.
func (j *Judges) Compatible(before, after []byte) (ext.Compatibility, error) {
	report, err := Compatible(before, after)
	c := ext.Compatibility{Effect: report.Effect().String(), Changes: make([]ext.SchemaChange, 0, len(report))}
	for _, change := range report {
		c.Changes = append(c.Changes, ext.SchemaChange{Pointer: change.Pointer, Change: change.Change, Effect: change.Effect.String()})
	}
	return c, refused(err)
}

// refused makes of a refusal one of the room. Other errors stay.
func refused(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return &ext.ValidationError{Pointer: e.Pointer, Reason: e.Reason}
	}
	return err
}
