package ext

import (
	"context"
	"os"
	"os/exec"
	"runtime"
)

// trialCommandName is the hidden command by which the server tries a schema in a
// process that it can kill.
const trialCommandName = "schema-trial"

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
