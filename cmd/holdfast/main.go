// Command holdfast is the server and its tools; see `holdfast help`.
package main

import (
	"os"
	"runtime"

	// The certificate authorities for a system that has none, as an image that
	// holds nothing but the binary.
	_ "golang.org/x/crypto/x509roots/fallback"

	"holdfast/internal/app"
	"holdfast/internal/app/cli"
)

// Set by the linker from the version control's description of the source.
var (
	version = "dev"
	commit  = ""
)

func main() {
	floor := make([]byte, app.HeapFloor) // later it could get memory that was used, and is cleared
	code := cli.Main(cli.Env{
		Args:    os.Args[1:],
		Environ: os.Environ(),
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
		Version: app.Version{Version: version, Commit: commit},
	})
	runtime.KeepAlive(floor)
	os.Exit(code)
}
