// Package cli is the command line: the verbs, their flags and what they print.
// What they do is in package app and the rooms.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"holdfast/internal/app"
	"holdfast/internal/clock"
	"holdfast/internal/conf"
)

// Env is what a command gets from its process.
type Env struct {
	Args    []string // without the program's name
	Environ []string
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Version app.Version
	Clock   clock.Clock // nil: the machine's
}

// Main runs a command and returns the exit status: 0, 1 when it failed, 2 when
// it was called wrongly or the configuration is wrong.
func Main(env Env) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks for an end in order; the second ends at once.
	context.AfterFunc(ctx, stop)
	return run(ctx, env)
}

func run(ctx context.Context, env Env) int {
	c := &command{env: env}
	root := c.root()
	root.SetArgs(env.Args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var wrong *conf.Error
	var failed *exitError
	switch {
	case errors.As(err, &wrong):
		fmt.Fprintln(env.Stderr, "holdfast: the configuration is wrong:")
		for _, p := range wrong.Problems {
			fmt.Fprintln(env.Stderr, "  "+p.String())
		}
		return 2
	case errors.As(err, &failed):
		return failed.status // it has said why
	}
	fmt.Fprintln(env.Stderr, "holdfast:", err)
	if c.running {
		return 1
	}
	fmt.Fprintln(env.Stderr, "Run 'holdfast help' for the commands.")
	return 2
}

// exitError ends with a status without another word.
type exitError struct{ status int }

func (e *exitError) Error() string { return fmt.Sprintf("exit status %d", e.status) }

// command is what the verbs share.
type command struct {
	env     Env
	file    string // --config
	data    string // --data
	running bool   // the command line was understood
}

func (c *command) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "A storage server for data that belongs to somebody",
		Long: "Holdfast is one server with a room for each kind of data. This release has Firefox Sync (the\n" +
			"records of browsers and the sign-in that leads to them) and extension storage (JSON records\n" +
			"of extensions).",
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			// cobra looks at these only after this function.
			if err := cmd.ValidateRequiredFlags(); err != nil {
				return err
			}
			if err := cmd.ValidateFlagGroups(); err != nil {
				return err
			}
			c.running = true
			return nil
		},
	}
	flags := root.PersistentFlags()
	flags.StringVar(&c.file, "config", c.getenv("HOLDFAST_CONFIG", ""), "TOML file with the configuration (HOLDFAST_CONFIG)")
	flags.StringVar(&c.data, "data", c.getenv("HOLDFAST_DATA", "./holdfast-data"), "folder of the embedded databases and the secrets file (HOLDFAST_DATA)")
	root.AddCommand(c.serve(), c.migrate(), c.check(), c.health(), c.sweep(), c.backup(), c.config(), c.version(), c.sync(), c.ext(), c.trial())
	return root
}

func (c *command) getenv(name, otherwise string) string {
	for _, kv := range c.env.Environ {
		if len(kv) > len(name) && kv[:len(name)] == name && kv[len(name)] == '=' {
			return kv[len(name)+1:]
		}
	}
	return otherwise
}

// load reads the configuration and prints what it is worth knowing of it.
func (c *command) load() (*app.Config, error) {
	cfg, report, err := app.Load(c.file, c.env.Environ)
	for _, w := range report.Warnings {
		fmt.Fprintln(c.env.Stderr, "holdfast: warning:", w)
	}
	for _, n := range report.Notes {
		fmt.Fprintln(c.env.Stderr, "holdfast: note:", n)
	}
	return cfg, err
}

// open opens the rooms for a verb that works beside a server; with leave the
// tables of embedded databases stay as they are.
func (c *command) open(ctx context.Context, leave bool) (*app.App, error) {
	cfg, err := c.load()
	if err != nil {
		return nil, err
	}
	return app.Open(ctx, app.Options{Config: cfg, Data: c.data, Version: c.env.Version, LogTo: c.env.Stderr, Quiet: true, Leave: leave, Clock: c.env.Clock})
}

// with runs fn on the opened rooms.
func (c *command) with(fn func(ctx context.Context, a *app.App, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a, err := c.open(cmd.Context(), false)
		if err != nil {
			return err
		}
		return errors.Join(fn(cmd.Context(), a, args), a.Close())
	}
}
