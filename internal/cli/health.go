package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app"
	"holdfast/internal/app/service"
)

// health reads the configuration for the address only; it opens no database.
func (c *command) health() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
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
			err = askReady(cmd.Context(), &cfg.Server)
			if asJSON {
				return c.printHealth(err)
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(c.env.Stdout, "ok")
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

// printHealth prints the result of askReady as JSON. The exit status is the same as without JSON.
func (c *command) printHealth(err error) error {
	answer := struct {
		Ready  bool   `json:"ready"`
		Reason string `json:"reason,omitempty"` // why it is not ready, or why it did not answer
	}{Ready: err == nil}
	if err != nil {
		answer.Reason = err.Error()
	}
	if failed := c.shell().PrintLine(answer); failed != nil {
		return failed
	}
	if err != nil {
		return &service.ExitError{Status: 1}
	}
	return nil
}

// askReady returns nil if /readyz answers 200, or an error with the reason that the server gives.
func askReady(ctx context.Context, server *app.Server) error {
	if server.AdminListen == "" {
		return errNoAdminListener
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // longer than /readyz takes
	defer cancel()
	status, text, err := (&running{server: server}).send(ctx, http.MethodGet, "/readyz")
	switch {
	case err != nil:
		return err
	case status != http.StatusOK:
		return errors.New("not ready: " + messageOf(status, text))
	}
	return nil
}

// messageOf returns the message in an error's JSON, or the status.
func messageOf(status int, text []byte) string {
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
		Detail string `json:"detail"`
	}
	if err := json.Unmarshal(text, &body); err == nil {
		switch {
		case body.Error.Message != "":
			return body.Error.Message
		case body.Detail != "":
			return body.Detail
		}
	}
	return fmt.Sprintf("status %d", status)
}

// maxAnswer is the maximum size of an answer of the admin listener, in bytes.
const maxAnswer = 1 << 20

// readAnswer reads at most maxAnswer bytes.
func readAnswer(from io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(from, maxAnswer)) }
