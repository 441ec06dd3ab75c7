package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"holdfast/internal/app"
	"holdfast/internal/app/service"
)

func (c *command) health() *cobra.Command {
	return &cobra.Command{
		Use:   "health",
		Short: "Ask the running server whether it is ready",
		Long: "Ask the running server, at server.admin_listen, whether it is ready. Exit status 1 when it\n" +
			"is not, or not there. It is for containers, which hold no other program to ask with.",
		Args: service.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.load()
			if err != nil {
				return err
			}
			if err := app.Health(cmd.Context(), cfg); err != nil {
				return err
			}
			fmt.Fprintln(c.env.Stdout, "ok")
			return nil
		},
	}
}
