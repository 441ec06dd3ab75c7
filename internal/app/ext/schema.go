package ext

import (
	"context"
	"os"
	"os/exec"
	"runtime"

	"holdfast/internal/extstorage/jsonschema"
)

// trialCommandName is the hidden command by which the server tries a schema in a
// process that it can kill.
const trialCommandName = "schema-trial"

// compiledBytes bounds the documents whose schemas are kept compiled. Those take
// some hundred times as much: 50 MB when all is used.
const compiledBytes = 512 << 10

// newValidator makes what checks schemas, and values by them.
func newValidator() *jsonschema.Validator {
	return jsonschema.NewValidator(compiledBytes, trialCommand)
}

// trialCommand is this very program, also when another has its name by now.
func trialCommand(ctx context.Context) *exec.Cmd {
	program := "/proc/self/exe"
	if runtime.GOOS != "linux" {
		program, _ = os.Executable() // what cannot be found is not started, which is an error
	}
	cmd := exec.CommandContext(ctx, program, trialCommandName)
	cmd.Args[0] = "holdfast"
	return cmd
}
