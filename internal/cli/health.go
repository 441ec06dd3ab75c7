package cli

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app"
	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
)

// health reads the configuration for the address only; it opens no database.
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
			if err := askReady(cmd.Context(), &cfg.Server); err != nil {
				return err
			}
			fmt.Fprintln(c.env.Stdout, "ok")
			return nil
		},
	}
}

// askReady returns nil if /readyz answers 200, or an error with the reason that the server gives.
func askReady(ctx context.Context, server *app.Server) error {
	if server.AdminListen == "" {
		return errors.New("server.admin_listen is empty: the server has no listener to ask")
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // longer than /readyz takes
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.AdminURL(server.AdminListen)+"/readyz", nil)
	if err != nil {
		return err
	}
	// Ignore proxy settings, which are for other hosts. Connect to the configured address: the certificate's name may
	// resolve elsewhere.
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, server.AdminListen)
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the answer is no secret, and the first certificate may be to come
	}}
	resp, err := client.Do(req)
	if err != nil {
		return errcode.NoAnswer(req.URL.String(), err)
	}
	defer resp.Body.Close()
	says, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		var body struct {
			Error struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		if err := json.Unmarshal(says, &body); err != nil || body.Error.Message == "" {
			return fmt.Errorf("not ready: status %d", resp.StatusCode)
		}
		return fmt.Errorf("not ready: %s", body.Error.Message)
	}
	return nil
}
