package ext

import (
	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/jsonschema"
)

func (s *Extensions) commands(sh *service.Shell) []*cobra.Command {
	return []*cobra.Command{{Use: "ext", Short: "Manage extension storage: tokens, installs, schemas, usage, exports and imports"}, {
		Use: trialCommandName, Hidden: true, Args: service.Args(),
		RunE: func(*cobra.Command, []string) error { return jsonschema.Main(sh.Stdin, sh.Stdout) },
	}}
}
