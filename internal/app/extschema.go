package app

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"

	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/jsonschema"
)

// TrialVerb is the verb of the binary, not in its help, by which the server
// tries a schema in a process that it can kill.
const TrialVerb = "schema-trial"

// compiledBytes bounds the documents whose schemas are kept compiled. Those take
// some hundred times as much: 50 MB when all is used.
const compiledBytes = 512 << 10

// validators implements ext.Validators.
type validators struct{ cache *jsonschema.Cache }

func newValidators() validators { return validators{jsonschema.NewCache(compiledBytes)} }

func (v validators) Validate(document []byte, value ext.Value) error {
	s, err := v.cache.Schema(document)
	if err != nil {
		return err
	}
	return refusedBySchema(s.Validate([]byte(value)))
}

// documents implements ext.Documents.
type documents struct{ sandbox *jsonschema.Sandbox }

func newDocuments() documents { return documents{jsonschema.NewSandbox(trialCommand)} }

func (documents) Check(document []byte) error { return refusedBySchema(jsonschema.Check(document)) }

func (d documents) Trial(ctx context.Context, document []byte, samples [][]byte) error {
	return refusedBySchema(d.sandbox.Trial(ctx, document, samples))
}

func (documents) Compatible(before, after []byte) (ext.Compatibility, error) {
	report, err := jsonschema.Compatible(before, after)
	c := ext.Compatibility{Effect: report.Effect().String(), Changes: make([]ext.SchemaChange, 0, len(report))}
	for _, change := range report {
		c.Changes = append(c.Changes, ext.SchemaChange{Pointer: change.Pointer, Change: change.Change, Effect: change.Effect.String()})
	}
	return c, refusedBySchema(err)
}

// refusedBySchema makes of a refusal one of the room. Other errors stay.
func refusedBySchema(err error) error {
	if e, ok := errors.AsType[*jsonschema.Error](err); ok {
		return &ext.ValidationError{Pointer: e.Pointer, Reason: e.Reason}
	}
	return err
}

// trialCommand is this very program, also when another has its name by now.
func trialCommand(ctx context.Context) *exec.Cmd {
	program := "/proc/self/exe"
	if runtime.GOOS != "linux" {
		program, _ = os.Executable() // what cannot be found is not started, which is an error
	}
	cmd := exec.CommandContext(ctx, program, TrialVerb)
	cmd.Args[0] = "holdfast"
	return cmd
}
