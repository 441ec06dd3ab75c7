// Package cli is the command line.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"holdfast/internal/app"
	"holdfast/internal/app/overview"
	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/conf"
	"holdfast/internal/engines"
	"holdfast/internal/fserror"
	operations "holdfast/internal/operate/cli"
	"holdfast/internal/replica/location"
)

// Env is everything that a command takes from the process, so that tests need no process.
type Env struct {
	Args    []string  // without the program name
	Environ []string  // NAME=VALUE, as in os.Environ
	Stdin   io.Reader // asked for confirmation if it is a terminal
	Stdout  io.Writer
	Stderr  io.Writer
	Version app.Version // of this build
	Clock   clock.Clock // nil: the system clock

	Engines  []engines.Engine  // database servers that services may use; SQLite is built in
	Services []service.Service // nil: this release's services, on Engines
}

// Main runs a command and returns the exit status: 0, 1 on failure, 2 on wrong usage or invalid configuration.
func Main(env Env) int {
	ctx, stop := untilSignal()
	defer stop()
	return Run(ctx, env)
}

// untilSignal restores the signals before the context ends, so that a second signal kills the process during shutdown.
func untilSignal() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
		case <-ctx.Done():
		}
		signal.Stop(signals)
		cancel()
	}()
	return ctx, cancel
}

// Run is Main without signals: it ends when ctx does.
func Run(ctx context.Context, env Env) int {
	c := &command{env: env, services: env.Services, operated: &overview.Operated{}}
	if c.services == nil {
		c.services = app.Services(env.Engines...)
	}
	root := c.root()
	if len(env.Args) > 0 && env.Args[0] == cobra.ShellCompRequestCmd {
		unquoteFlags(root)
	}
	root.SetArgs(env.Args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	return c.report(cmd, err)
}

// report prints an error and returns the exit status. Configuration and usage errors exit with 2; scripts can tell
// them from failures.
func (c *command) report(cmd *cobra.Command, err error) int {
	var invalid *conf.Error
	var failed *service.ExitError
	var usage *service.UsageError
	switch {
	case errors.As(err, &invalid):
		fmt.Fprintln(c.env.Stderr, "holdfast: invalid configuration:")
		for _, p := range invalid.Problems {
			fmt.Fprintln(c.env.Stderr, "  "+service.PrintableLines(p.String()))
		}
		return 2
	case errors.As(err, &failed):
		return failed.Status // already printed
	case errors.As(err, &usage):
		if usage.Command != nil {
			cmd = usage.Command
		}
		fmt.Fprintf(c.env.Stderr, "%s: %s\nRun '%s --help' for usage.\n", cmd.CommandPath(), service.PrintableLines(usage.Message), cmd.CommandPath())
		return 2
	}
	if p, ok := err.(*fs.PathError); ok { //nolint:errorlint // a wrapped one already has a text of ours
		err = fserror.Named(p, "cannot %s %s: %v", p.Op, p.Path, p.Err)
	}
	fmt.Fprintln(c.env.Stderr, "holdfast:", service.PrintableLines(fserror.Explain(err).Error()))
	return 1
}

// command holds the state that subcommands share. It is for one run.
type command struct {
	env      Env
	services []service.Service
	operated *overview.Operated // for the server's operations, filled in when services are open
	file     string             // --config
	data     string             // --data
	// flags that stand for settings; they override the file and the environment
	flags []conf.Flag
}

// clouds opens buckets with backups or a replica.
func (c *command) clouds() location.Clouds { return engines.List(c.env.Engines).Clouds() }

// root returns the command holdfast with all subcommands.
func (c *command) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "A self-hosted storage server",
		Long: "Holdfast is a self-hosted storage server in one binary: Firefox Sync, a JSON store for\n" +
			"browser extensions, S3-compatible buckets, and guest sessions for booking sites. It needs no\n" +
			"configuration and no other server.",
		Example: "  holdfast serve          # serves on http://127.0.0.1:8000, with its data in ./holdfast-data\n" +
			"  holdfast check          # finds configuration mistakes and says how to fix them\n" +
			"  holdfast help serve     # shows the help of a command",
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			c.fromEnvironment(cmd)
			return checkFlags(cmd)
		},
	}
	root.SetUsageFunc(usage)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(c.help())
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	flags := root.PersistentFlags()
	flags.StringVar(&c.file, "config", "", "read the configuration from `FILE`, in TOML (environment: HOLDFAST_CONFIG)")
	flags.StringVar(&c.data, "data", "./holdfast-data", "keep SQLite files and generated secrets in `DIR` (environment: HOLDFAST_DATA)")
	flags.BoolP("help", "h", false, "show this help")
	_ = root.MarkPersistentFlagFilename("config", "toml")
	_ = root.MarkPersistentFlagDirname("data")
	c.addCommands(root)
	completeCommands(root)
	printVersion(root, c.env.Version.String())
	return root
}

const (
	serverGroup  = "server" // Groups in the root's help.
	serviceGroup = "service"
	otherGroup   = "other"
)

// addCommands adds the commands for the server, its operations and the services. Commands for a service that opens
// alone (app.OpensAlone) open no other service.
func (c *command) addCommands(root *cobra.Command) {
	root.AddGroup(
		&cobra.Group{ID: serverGroup, Title: "Server:"},
		&cobra.Group{ID: serviceGroup, Title: "Services:"},
		&cobra.Group{ID: otherGroup, Title: "Other:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, cmd := range commands {
			cmd.GroupID = group
		}
		merge(root, commands)
	}
	add(serverGroup, c.serve(), c.check(), c.health(), c.status(), c.reload(), c.log(), c.migrate(), c.sweep(), c.backup(), c.restore(), c.finish(), c.copyService(), c.importService(), c.config())
	add(serverGroup, operations.Commands("", overview.Operations(c.operated), c.shell()).Commands()...)
	add(otherGroup, c.completion(), c.man(), c.version())
	root.SetHelpCommandGroupID(otherGroup)
	for _, s := range c.services {
		sh := c.shell()
		if app.OpensAlone(s.Name) {
			sh.Open = func(ctx context.Context, fn func(context.Context) error) error {
				return c.withOnly(ctx, s.Name, app.ModeOperate, func(ctx context.Context, _ *app.App) error { return fn(ctx) })
			}
		}
		if s.Commands != nil {
			add(serviceGroup, s.Commands(sh)...)
		}
		if len(s.Operations) > 0 {
			add(serviceGroup, operations.Commands(s.CommandName(), s.Operations, sh))
		}
	}
}

// fromEnvironment sets --config and --data from the environment if they were not typed. It must run before the
// configuration is read.
func (c *command) fromEnvironment(cmd *cobra.Command) {
	for name, value := range map[string]*string{"config": &c.file, "data": &c.data} {
		if !cmd.Flags().Changed(name) {
			*value = cmp.Or(c.getenv("HOLDFAST_"+strings.ToUpper(name)), *value)
		}
	}
}

// merge adds commands below parent. Commands with the same name, such as keys from operations and from a service's
// own commands, become one command with all their subcommands.
func merge(parent *cobra.Command, commands []*cobra.Command) {
	for _, cmd := range commands {
		i := slices.IndexFunc(parent.Commands(), func(have *cobra.Command) bool { return have.Name() == cmd.Name() })
		if i < 0 {
			parent.AddCommand(cmd)
			continue
		}
		if have := parent.Commands()[i]; have.Short == "" {
			have.Short, have.Long, have.Aliases = cmd.Short, cmd.Long, cmd.Aliases
		}
		below := slices.Clone(cmd.Commands())
		cmd.RemoveCommand(below...)
		merge(parent.Commands()[i], below)
	}
}

// shell returns the command line as services see it. Its Open opens all enabled services for the time of a call.
func (c *command) shell() *service.Shell {
	return &service.Shell{
		Stdin: c.env.Stdin, Stdout: c.env.Stdout, Stderr: c.env.Stderr,
		Load: func() error { _, err := c.load(); return err },
		Open: func(ctx context.Context, fn func(context.Context) error) error {
			return c.with(ctx, app.ModeOperate, func(ctx context.Context, _ *app.App) error { return fn(ctx) })
		},
	}
}

// getenv returns a variable from Env.Environ, or "" if it is not set.
func (c *command) getenv(name string) string {
	for _, kv := range c.env.Environ {
		if len(kv) > len(name) && kv[:len(name)] == name && kv[len(name)] == '=' {
			return kv[len(name)+1:]
		}
	}
	return ""
}

// load reads the configuration and prints its warnings and notes.
func (c *command) load() (*app.Config, error) {
	cfg, report, err := c.read()
	c.print(report)
	return cfg, err
}

// read reads the configuration without printing anything. The settings go to the sections of c.services, so services
// see them afterwards.
func (c *command) read() (*app.Config, conf.Report, error) {
	return app.Load(c.services, c.file, c.env.Environ, c.flags...)
}

// print writes a report's lines to standard error.
func (c *command) print(report conf.Report) {
	for _, n := range notices(report) {
		fmt.Fprintln(c.env.Stderr, "holdfast:", service.PrintableLines(n))
	}
}

// notices returns the warnings and notes about a configuration, a line each.
func notices(report conf.Report) (all []string) {
	for _, w := range report.Warnings {
		all = append(all, "warning: "+w.String())
	}
	for _, n := range report.Notes {
		all = append(all, "note: "+n.String())
	}
	return all
}

// options returns the options to open the services of cfg.
func (c *command) options(cfg *app.Config, mode app.Mode) app.Options {
	return app.Options{Config: cfg, Mode: mode, Engines: c.env.Engines, Data: c.data, Version: c.env.Version, LogTo: c.env.Stderr, Clock: c.env.Clock}
}

// with calls fn while all services are open, without listeners. It returns fn's error joined with the error from
// closing.
func (c *command) with(ctx context.Context, mode app.Mode, fn func(context.Context, *app.App) error) error {
	return c.withOnly(ctx, "", mode, fn)
}

// withOnly is with for the service name only; "": all enabled services. With app.ModeOperate it first warns if a running
// server has another configuration.
func (c *command) withOnly(ctx context.Context, name string, mode app.Mode, fn func(context.Context, *app.App) error) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	if name != "" {
		cfg = cfg.Only(name)
	}
	o := c.options(cfg, mode)
	o.Operated = c.operated
	a, err := app.Open(ctx, o)
	if err != nil {
		return err
	}
	if mode == app.ModeOperate {
		if warning := a.CompareWithRunning(ctx); warning != "" {
			fmt.Fprintln(c.env.Stderr, "holdfast: warning:", service.PrintableLines(warning))
		}
	}
	return errors.Join(fn(ctx, a), a.Close())
}
