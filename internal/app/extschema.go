package app

import (
	"context"
	"os"
	"os/exec"
	"runtime"

	"holdfast/internal/extstorage/jsonschema"
)

// TrialVerb is the verb of the binary, not in its help, by which the server
// tries a schema in a process that it can kill.
const TrialVerb = "schema-trial"

// compiledBytes bounds the documents whose schemas are kept compiled. Those take
// some hundred times as much: 50 MB when all is used.
const compiledBytes = 512 << 10

// newJudges makes what judges schemas, and values by them.
func newJudges() *jsonschema.Judges { return jsonschema.NewJudges(compiledBytes, trialCommand) }

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
