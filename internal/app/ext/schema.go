package ext

import (
	"context"
	"os"
	"os/exec"
	"runtime"
)

// trialCommandName is a hidden command that tries a schema in a killable child process.
const trialCommandName = "schema-trial"

// trialCommand reruns this program, even if its file was replaced.
func trialCommand(ctx context.Context) *exec.Cmd {
	program := "/proc/self/exe"
	if runtime.GOOS != "linux" {
		program, _ = os.Executable() // on an error program is "", which cannot be started
	}
	cmd := exec.CommandContext(ctx, program, trialCommandName)
	cmd.Args[0] = "holdfast"
	return cmd
}
