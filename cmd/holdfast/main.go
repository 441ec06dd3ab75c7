// Command holdfast is the server and its tools; see `holdfast help`.
package main

import (
	"os"
	"runtime"

	// Certificate authorities for systems without any, such as an image with only the binary.
	_ "golang.org/x/crypto/x509roots/fallback"

	"holdfast/internal/app"
	"holdfast/internal/cli"
	"holdfast/internal/engines/all"
)

// Set by the linker.
var (
	version = "dev"
	commit  = ""
)

func main() {
	floor := make([]byte, app.HeapFloor) // allocated first, because reused memory would be cleared and so touched
	code := cli.Main(cli.Env{
		Args:    os.Args[1:],
		Engines: all.Engines(),
		Environ: os.Environ(),
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
		Version: app.Version{Version: version, Commit: commit},
	})
	runtime.KeepAlive(floor)
	os.Exit(code)
}
