// Command clocked is holdfast with a clock that the test controls. The file named by CLOCKED_BY contains an offset,
// e.g. -1h, or an RFC 3339 time at which the clock stops.
package main

import (
	"os"
	"time"

	"holdfast/internal/app"
	"holdfast/internal/cli"
	"holdfast/internal/engines/all"
)

func main() {
	os.Exit(cli.Main(cli.Env{
		Args:    os.Args[1:],
		Engines: all.Engines(),
		Environ: os.Environ(),
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
		Version: app.Version{Version: "clocked"},
		Clock:   now,
	}))
}

// now returns the time without a monotonic reading, as after a clock change.
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
