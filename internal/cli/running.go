package cli

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app"
	"holdfast/internal/app/overview"
	"holdfast/internal/app/service"
	"holdfast/internal/durations"
	"holdfast/internal/errcode"
	"holdfast/internal/fserror"
	"holdfast/internal/listen"
	"holdfast/internal/secrets"
)

var errNoAdminListener = errors.New("server.admin_listen is empty: the server has no listener to ask")

// running is a client for the admin listener of a running server.
type running struct {
	server *app.Server
	token  string // "": none
}

// send sends a request without a body. The environment's proxies are for other hosts. It connects to the configured
// address, because the certificate's name may resolve elsewhere, and accepts any certificate, because the server's first
// one may be to come: find has checked who listens there.
func (r *running) send(ctx context.Context, method, path string) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, r.server.AdminURL(r.server.AdminListen)+path, nil)
	if err != nil {
		return 0, nil, err
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, r.server.AdminListen)
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
	}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, errcode.NoAnswer(req.URL.String(), err)
	}
	defer resp.Body.Close()
	answer, err = readAnswer(resp.Body)
	return resp.StatusCode, answer, err
}

// find returns the running server that this configuration describes. The server first proves that it has the same
// master secret, because another program on its port must not get the admin token.
func (c *command) find(ctx context.Context) (*running, error) {
	cfg, err := c.load()
	if err != nil {
		return nil, err
	}
	server := &cfg.Server
	if server.AdminListen == "" {
		return nil, errNoAdminListener
	}
	path := secrets.Path(c.data, secrets.File)
	saved, err := secrets.Read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fserror.Explain(err)
	}
	masters, r := []string{server.MasterSecret.Reveal()}, &running{server, server.AdminToken.Reveal()}
	if masters[0] == "" {
		masters[0] = saved[secrets.Master]
	}
	if r.token == "" {
		r.token = saved[secrets.Admin]
	}
	if masters[0] == "" || r.token == "" {
		return nil, fmt.Errorf("the secrets of the server are neither in the configuration nor in %s; %s", path, secrets.Elsewhere)
	}
	for _, old := range server.OldMasterSecrets {
		masters = append(masters, old.Reveal())
	}
	own, err := listen.NewInstance(masters, c.data)
	if err != nil {
		return nil, err
	}
	switch id, err := own.Ask(ctx, server.AdminListen, strings.HasPrefix(server.AdminURL(server.AdminListen), "https:")); {
	case errors.Is(err, listen.ErrOtherSecrets):
		return nil, fmt.Errorf("a Holdfast server with other secrets listens on %s; %s", server.AdminListen, secrets.Elsewhere)
	case err != nil:
		return nil, fmt.Errorf("no Holdfast server answers on %s (server.admin_listen): start it with holdfast serve; if it runs, %s", server.AdminListen, secrets.Elsewhere)
	case id.Data != own.Data:
		return nil, fmt.Errorf("the server on %s has the same secrets, but the data folder %s; %s", server.AdminListen, id.Data, secrets.Elsewhere)
	}
	return r, nil
}

// call sends a request and decodes the answer. An error has the server's message.
func (r *running) call(ctx context.Context, method, path string, to any) error {
	status, answer, err := r.send(ctx, method, path)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return errors.New(messageOf(status, answer))
	}
	return json.Unmarshal(answer, to)
}

// status prints a running server's own description.
func (c *command) status() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show a running server: its version, addresses, services and databases",
		Long: "Ask the server at server.admin_listen what runs: its version, process, addresses, services, databases and\n" +
			"pending migrations, and whether it is ready. The exit status is 1 when it is not ready or does not answer.",
		Example: "  holdfast status\n" +
			"  holdfast status --json",
		Args: service.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), 15*time.Second) // longer than /status takes
			defer cancel()
			r, err := c.find(ctx)
			if err != nil {
				return err
			}
			var s app.ServerState
			if err := r.call(ctx, http.MethodGet, app.StatePath, &s); err != nil {
				return err
			}
			if asJSON {
				err = c.shell().PrintLine(s)
			} else {
				err = c.printState(&s)
			}
			if err == nil && !s.Ready {
				err = &service.ExitError{Status: 1}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

// printState prints facts about the server, and a table with its services.
func (c *command) printState(s *app.ServerState) error {
	w := c.shell().Table()
	state := "not ready"
	if s.Ready {
		state = "ready"
	}
	rows := [][]any{
		{"STATE", state}, {"VERSION", s.Version.String()}, {"PROCESS", s.Process},
		{"STARTED (UTC)", s.Started.UTC().Format(time.DateTime)}, {"UPTIME", durations.Format(time.Duration(s.Uptime) * time.Second)},
		{"DATA FOLDER", s.Data}, {"CONFIGURATION", s.Configuration},
	}
	for _, l := range s.Listeners {
		rows = append(rows, []any{strings.ToUpper(l.Name), l.URL})
	}
	if s.ReloadRefused != "" {
		rows = append(rows, []any{"RELOAD", s.ReloadRefused})
	}
	if len(s.Waiting) > 0 {
		rows = append(rows, []any{"NEED A RESTART", strings.Join(s.Waiting, ", ")})
	}
	for _, row := range rows {
		if row[1] == "" {
			row[1] = "-"
		}
		if err := w.Row(row...); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	w = c.shell().Table()
	w.Printf("\n")
	if err := w.Row("SERVICE", "STATE", "MIGRATIONS", "DATABASE", "REASON"); err != nil {
		return err
	}
	for _, s := range s.Services {
		migrations := "-"
		switch {
		case s.Pending == nil:
		case *s.Pending == 0:
			migrations = "up to date"
		default:
			migrations = fmt.Sprintf("%d pending", *s.Pending)
		}
		database := s.Database
		if database == "" {
			database = "-"
		}
		if err := w.Row(s.Name, s.State, migrations, database, s.Reason); err != nil {
			return err
		}
	}
	return w.Flush()
}

// reload asks a running server to read its configuration again, as SIGHUP does, and waits for the result.
func (c *command) reload() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Let a running server read its configuration and certificates again",
		Long: "Ask the server at server.admin_listen to read its configuration file and certificates again, as SIGHUP does,\n" +
			"and print the settings that it applied and those that need a restart. If anything is invalid, it applies\n" +
			"nothing, and the exit status is 1. Environment variables stay as they were when the server started.",
		Args: service.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), time.Minute)
			defer cancel()
			r, err := c.find(ctx)
			if err != nil {
				return err
			}
			var done overview.Reloaded
			if err := r.call(ctx, http.MethodPost, "/settings/reload", &done); err != nil {
				return err
			}
			if asJSON {
				return c.shell().PrintLine(done)
			}
			_, err = fmt.Fprintln(c.env.Stdout, done.Notice())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}
