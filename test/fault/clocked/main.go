// Command clocked is holdfast by a clock that a test turns: the machine's, and
// what stands in the file CLOCKED_BY, a duration such as -1h.
package main

import (
	"os"
	"time"

	"holdfast/internal/app"
	"holdfast/internal/app/cli"
)

func main() {
	os.Exit(cli.Main(cli.Env{
		Args:    os.Args[1:],
		Environ: os.Environ(),
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
		Version: app.Version{Version: "clocked"},
		Clock:   now,
	}))
}

// now has no monotonic reading, as a clock has none that somebody sets.
func now() time.Time {
	text, err := os.ReadFile(os.Getenv("CLOCKED_BY"))
	if err != nil {
		panic(err)
	}
	off, err := time.ParseDuration(string(text))
	if err != nil {
		panic(err)
	}
	return time.Now().Round(0).Add(off)
}
