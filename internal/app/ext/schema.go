package ext

import (
	"context"
	"os"
	"os/exec"
	"runtime"
)

// trialCommandName is the hidden command that tries a schema in a process of its own,
// which the server can kill.
const trialCommandName = "schema-trial"

// trialCommand returns a command that runs this program, even if its file was replaced.
func trialCommand(ctx context.Context) *exec.Cmd {
	program := "/proc/self/exe"
	if runtime.GOOS != "linux" {
		program, _ = os.Executable() // on an error program is "", which cannot be started
	}
	cmd := exec.CommandContext(ctx, program, trialCommandName)
	cmd.Args[0] = "holdfast"
	return cmd
}
