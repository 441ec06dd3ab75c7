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
		Short: "Ask a running server whether it is ready",
		Long: "Ask the server at server.admin_listen whether it is ready. The exit status is 1 when it is not\n" +
			"ready or does not answer. Containers use it as their health check.",
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
