package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"holdfast/internal/app"
	"holdfast/internal/app/service"
	"holdfast/internal/check"
	"holdfast/internal/conf"
	"holdfast/internal/fserror"
	"holdfast/internal/systemd"
)

// serve runs until a signal. With log.format json, notices about the configuration become log lines instead of text.
func (c *command) serve() *cobra.Command {
	var migrate, newSecrets bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: "Run the server until SIGINT or SIGTERM. Without configuration it serves Firefox Sync and\n" +
			"extension storage on 127.0.0.1:8000, buckets (S3) on 127.0.0.1:9000, and metrics on 127.0.0.1:8001,\n" +
			"and creates its SQLite files in the data folder. SIGHUP reloads the configuration and applies the settings\n" +
			"that need no restart.",
		Example: "  holdfast serve\n" +
			"  holdfast serve --listen :8000\n" +
			"  holdfast serve --data /var/lib/holdfast --config /etc/holdfast.toml\n" +
			"  HOLDFAST_SERVER__PUBLIC_URL=https://sync.example.org holdfast serve",
		Args: service.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.readFlags(cmd)
			cfg, report, err := c.read()
			var logged []string
			if err == nil && cfg.Log.Format == "json" {
				logged = notices(report)
			} else {
				c.print(report)
			}
			if err != nil {
				return err
			}
			manager, err := systemd.FromEnvironment()
			if err != nil {
				return err
			}
			mode := app.ModeServe
			if migrate {
				mode = app.ModeServeMigrating
			}
			o := c.options(cfg, mode)
			o.NewSecrets, o.Manager, o.Reload, o.MemoryLimit = newSecrets, manager, c.reloads(cmd.Context()), c.getenv("GOMEMLIMIT")
			return app.Run(cmd.Context(), o, c.env.Stdout, logged)
		},
	}
	settingFlags(cmd)
	cmd.Flags().BoolVar(&migrate, "migrate", false, "migrate databases on PostgreSQL and Spanner first; those on SQLite always are")
	newSecretsFlag(cmd, &newSecrets)
	return cmd
}

// settingFlags adds the flags that stand for settings.
func settingFlags(cmd *cobra.Command) {
	cmd.Flags().String("listen", "", "`ADDRESS` for clients, e.g. :8000 for all networks (server.listen)")
}

// readFlags takes the settings from the flags of settingFlags. It must run before the configuration is read.
func (c *command) readFlags(cmd *cobra.Command) {
	if f := cmd.Flags().Lookup("listen"); f.Changed {
		c.flags = []conf.Flag{{Name: "--listen", Path: "server.listen", Value: f.Value.String()}}
	}
}

// reloads returns where new configurations come from: SIGHUP, and a function that reads the files again into new
// sections. Tests that bring their own services cannot reload. Signals are registered at once, because SIGHUP would
// end a process that does not handle it.
func (c *command) reloads(ctx context.Context) app.Reload {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	context.AfterFunc(ctx, func() { signal.Stop(signals) })
	if c.env.Services != nil { // their sections belong to the running server
		return app.Reload{Signals: signals}
	}
	return app.Reload{Signals: signals, Read: func() (*app.Config, error) {
		cfg, _, err := app.Load(app.Services(c.env.Engines...), c.file, c.env.Environ, c.flags...)
		return cfg, err
	}}
}

// newSecretsFlag adds --new-secrets, for commands that open databases.
func newSecretsFlag(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVar(to, "new-secrets", false, "accept secrets that differ from the data's; tokens signed with the old secrets are refused")
}

// migrate prints each applied migration, also if a later one fails.
func (c *command) migrate() *cobra.Command {
	var newSecrets bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create or update the tables in every configured database",
		Long: "Create or update the tables in every configured database. Servers running the previous release can\n" +
			"continue. On Citus the tables are distributed, too. With extstorage.metadata_index, that index is\n" +
			"created while servers write.",
		Example: "  HOLDFAST_SYNCSTORAGE__DATABASE_URL=postgres://sync@db/sync holdfast migrate",
		Args:    service.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.load()
			if err != nil {
				return err
			}
			o := c.options(cfg, app.ModeMigrate)
			o.NewSecrets = newSecrets
			a, err := app.Open(cmd.Context(), o)
			if err != nil {
				return err
			}
			applied, err := a.Migrate(cmd.Context())
			for _, m := range applied {
				fmt.Fprintln(c.env.Stdout, m)
			}
			if err == nil && len(applied) == 0 {
				fmt.Fprintln(c.env.Stdout, "all tables are up to date")
			}
			return errors.Join(err, a.Close())
		},
	}
	newSecretsFlag(cmd, &newSecrets)
	return cmd
}

// check prints findings about the configuration even if it is invalid; without a valid one it checks nothing else.
func (c *command) check() *cobra.Command {
	var o check.Options
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Find problems in configuration and environment, and print how to fix them",
		Long: "Check the configuration and everything it names (databases, accounts server, files, addresses), and print\n" +
			"problems and how to fix them. The exit status is 1 when something is wrong.\n\n" +
			"With --deep every database is read completely, also while a server uses it, and damage is reported: SQLite\n" +
			"checks pages and indexes; on PostgreSQL every row is read, and indexes are checked where the extension\n" +
			"amcheck is installed.\n\n" +
			"With --start it skips addresses, database servers and everything on other machines: a server starts without\n" +
			"these. The systemd unit runs it before each start.",
		Example: "  holdfast check\n" +
			"  holdfast check --deep",
		Args: service.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Progress = c.step
			cfg, report, err := app.Load(c.services, c.file, c.env.Environ)
			var invalid *conf.Error
			findings := check.Configuration(c.file, report, err)
			if err != nil && !errors.As(err, &invalid) {
				return err
			}
			if err == nil {
				findings = append(findings, app.Check(cmd.Context(), cfg, c.data, o, c.env.Engines...)...)
			}
			return c.printFindings(findings)
		},
	}
	cmd.Flags().BoolVar(&o.Deep, "deep", false, "read every database completely, and report damage")
	cmd.Flags().BoolVar(&o.Start, "start", false, "check only the requirements for a start")
	cmd.MarkFlagsMutuallyExclusive("deep", "start")
	return cmd
}

// step prints a progress line to standard error.
func (c *command) step(what string) { fmt.Fprintln(c.env.Stderr, what) }

// printFindings prints a table, and returns an error without a message, for exit status 1, if something is wrong.
// Warnings do not count.
func (c *command) printFindings(findings []service.Finding) error {
	w := c.shell().Table()
	bad := 0
	for _, f := range findings {
		w.Printf("%s\t%s\t%s\n", f.State, f.What, f.Says)
		if f.Fix != "" {
			w.Printf("\t\tfix: %s\n", f.Fix)
		}
		if f.State == service.Wrong {
			bad++
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if bad > 0 {
		return &service.ExitError{Status: 1}
	}
	return nil
}

// sweep runs every job once in this process, beside a running server.
func (c *command) sweep() *cobra.Command {
	return &cobra.Command{
		Use:   "sweep",
		Short: "Delete expired data now, as the server does regularly",
		Args:  service.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), app.ModeOperate, func(ctx context.Context, a *app.App) error {
				return a.Sweep(ctx, func(line string) { fmt.Fprintln(c.env.Stdout, line) })
			})
		},
	}
}

// config prints the settings in use, and documents that are generated from the settings.
func (c *command) config() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Print all settings"}
	cmd.AddCommand(
		c.effective(),
		&cobra.Command{
			Use: "example", Short: "Print a configuration file with all settings and their defaults", Args: service.Args(),
			Run: func(*cobra.Command, []string) { fmt.Fprint(c.env.Stdout, app.Example()) },
		},
		&cobra.Command{
			Use: "reference", Short: "Print a settings reference in Markdown", Args: service.Args(),
			Run: func(*cobra.Command, []string) { fmt.Fprint(c.env.Stdout, app.Reference()) },
		},
	)
	return cmd
}

// setting is a line of config effective.
type setting struct {
	Setting string `json:"setting"`
	Value   any    `json:"value,omitempty"` // missing: a secret
	Set     *bool  `json:"set,omitempty"`   // only of secrets
	Source  string `json:"source"`
}

// effective prints each setting's value and origin, and first the two flags that are no settings.
func (c *command) effective() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "effective",
		Short: "Print every setting with its value and its source",
		Long: "Print every setting with the value that a server started now would use, and the value's source: a file and\n" +
			"line, a variable, a flag, or default. Secrets are hidden. For some defaults, the source is the\n" +
			"setting that determines them; for generated secrets, it is their file. A running server may use other values,\n" +
			"which the console shows.",
		Example: "  holdfast config effective\n" +
			"  holdfast config effective --config /etc/holdfast/holdfast.toml --json",
		Args: service.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.readFlags(cmd)
			cfg, err := c.load()
			if err != nil {
				return err
			}
			all, err := cfg.Effective(c.data, c.getenv)
			if err != nil {
				fmt.Fprintln(c.env.Stderr, "holdfast: the secrets file cannot be read, so its secrets are shown as not set:", service.PrintableLines(fserror.Explain(err).Error()))
			}
			all = append([]conf.Setting{c.flagSource(cmd, "config", c.file), c.flagSource(cmd, "data", c.data)}, all...)
			return c.printSettings(all, asJSON)
		},
	}
	settingFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON line for each setting")
	return cmd
}

// flagSource returns a global flag like a setting. c.fromEnvironment has set its value.
func (c *command) flagSource(cmd *cobra.Command, name, value string) conf.Setting {
	s := conf.Setting{Path: "--" + name, Value: strconv.Quote(value), Data: value, Where: "default"}
	variable := "HOLDFAST_" + strings.ToUpper(name)
	switch {
	case cmd.Flags().Changed(name):
		s.Where = "--" + name
	case c.getenv(variable) != "":
		s.Where = variable
	}
	return s
}

// printSettings prints a table or, as JSON, a line for each setting.
func (c *command) printSettings(all []conf.Setting, asJSON bool) error {
	sh := c.shell()
	if asJSON {
		for i := range all {
			s := &all[i]
			line := setting{Setting: s.Path, Value: s.Data, Source: s.Where}
			if isSet := s.Value == conf.Secret("x").String(); s.Secret && s.Data == nil {
				line.Set = &isSet
			}
			if err := sh.PrintLine(line); err != nil {
				return err
			}
		}
		return nil
	}
	w := sh.Table()
	if err := w.Row("SETTING", "VALUE", "SOURCE"); err != nil {
		return err
	}
	for _, s := range all {
		if s.Secret && s.Value == "" {
			s.Value = conf.Secret("").String()
		}
		if err := w.Row(s.Path, s.Value, s.Where); err != nil {
			return err
		}
	}
	return w.Flush()
}

// version prints the same as --version.
func (c *command) version() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", Args: service.Args(),
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return c.shell().PrintLine(c.env.Version)
			}
			_, err := fmt.Fprintln(c.env.Stdout, c.env.Version)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}
