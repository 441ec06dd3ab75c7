// Command clocked is holdfast by a clock that a test turns. In the file CLOCKED_BY
// is how far it is off the machine's, a duration such as -1h, or a time in RFC
// 3339, at which it stands still.
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
	if at, err := time.Parse(time.RFC3339Nano, string(text)); err == nil {
		return at
	}
	off, err := time.ParseDuration(string(text))
	if err != nil {
		panic(err)
	}
	return time.Now().Round(0).Add(off)
}
