package ext

import (
	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/jsonschema"
)

// commands returns the command that the operations' commands are added to, and the hidden command that compiles a
// schema in a child process.
func (s *Extensions) commands(sh *service.Shell) []*cobra.Command {
	return []*cobra.Command{{Use: "ext", Short: "Manage extension storage: tokens, installs, schemas, usage, exports and imports"}, {
		Use: trialCommandName, Hidden: true, Args: service.Args(),
		RunE: func(*cobra.Command, []string) error { return jsonschema.Main(sh.Stdin, sh.Stdout) },
	}}
}
