package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app"
	"holdfast/internal/app/service"
	"holdfast/internal/durable"
	"holdfast/internal/importing"
)

// importFlags are holdfast import's flags.
type importFlags struct {
	urls                    map[string]*string // URLs of the other server's databases, by flag (service.Import.Flag)
	dryRun, verify, stopped bool               // --stopped: the operator says that the other server is stopped
	list                    string             // file for the rows with problems; "": the default
}

// importService adds a flag for each database that a service can import.
func (c *command) importService() *cobra.Command {
	in := importFlags{urls: map[string]*string{}}
	cmd := &cobra.Command{
		Use:   "import SERVICE --from URL",
		Short: "Import data from Mozilla's server into the configured databases",
		Long: "Import data from Mozilla's server, syncstorage-rs, on MySQL, MariaDB or PostgreSQL into the configured databases,\n" +
			"which must be empty: SQLite, PostgreSQL or Citus. The other server keeps running at first, and its databases are\n" +
			"only read. When everything is copied and compared, import asks you to stop it, and copies the latest changes. Rows\n" +
			"that cannot be imported are counted and named. Times, IDs, expiry and nodes keep their values, so browsers continue\n" +
			"where they were. Run the same command again after an interruption.",
		Example: "  holdfast import syncstorage --from mysql://sync@db/syncstorage --accounts-from mysql://sync@db/tokenserver --dry-run\n" +
			"  holdfast import syncstorage --from mysql://sync@db/syncstorage --accounts-from mysql://sync@db/tokenserver",
		Args: service.Args("SERVICE"),
		RunE: func(cmd *cobra.Command, args []string) error { return c.runImport(cmd.Context(), args[0], &in) },
	}
	f := cmd.Flags()
	for _, s := range c.services {
		if s.Import != nil {
			in.urls[s.Import.Flag] = f.String(s.Import.Flag, "", s.Import.Doc)
		}
	}
	f.BoolVar(&in.dryRun, "dry-run", false, "check the databases and print the rows to import and to skip")
	f.BoolVar(&in.verify, "verify", false, "only compare the databases, owner by owner")
	f.BoolVar(&in.stopped, "stopped", false, "the other server is stopped: do not ask")
	f.StringVar(&in.list, "list", "", "write long lists of rows to `FILE` (default: import-SERVICE.txt in the data folder)")
	_ = cmd.MarkFlagFilename("list")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "verify", "stopped")
	return cmd
}

// runImport imports the service name together with the services that belong to it (service.Import.Of). A dry run and
// a verification write nothing. Without --list, the default file is used only for a real import.
func (c *command) runImport(ctx context.Context, name string, in *importFlags) (err error) {
	mode := targetMode(in.dryRun, in.verify)
	defer func() { err = interrupted(ctx, mode == app.ModeCopyWrite, err) }()
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(copyMemory))
	var names []string
	for _, s := range c.services {
		if s.Import != nil && s.Import.Of == s.Name {
			names = append(names, s.Name)
		}
	}
	if !slices.Contains(names, name) {
		return service.Usagef("unknown service: expected %s", strings.Join(names, ", "))
	}
	cfg, err := c.load()
	if err != nil {
		return err
	}
	urls := map[string]string{}
	for flag, value := range in.urls {
		urls[flag] = *value
	}
	parts, closing, err := app.OpenParts(ctx, name, urls, c.options(cfg, mode))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closing()) }()
	m := &importing.Import{Parts: parts}
	var end func()
	m.Report, m.Progress, _, end = c.bars()
	defer end()
	asking, progress := false, m.Progress
	m.Progress = func(what string, done, total int64) {
		if !asking { // no output while a question is open
			progress(what, done, total)
		}
	}
	switch {
	case in.dryRun:
		return c.dryRunImport(ctx, m, in.list)
	case in.verify:
		return c.verifyImport(ctx, m, end)
	}
	if err := m.Migrate(ctx); err != nil {
		return err
	}
	m.Quiet = quiet
	m.Stopped = func(ctx context.Context, asked int, pass func(context.Context) error) error {
		end()
		asking = true
		defer func() { asking = false }()
		return c.stopped(ctx, in.stopped, asked, pass)
	}
	if err := m.Run(ctx); err != nil {
		return err
	}
	end()
	if in.list == "" {
		in.list = filepath.Join(c.data, "import-"+name+".txt")
		if err := durable.MakeFolder(c.data); err != nil {
			return err
		}
	}
	actions, findings, err := c.problems(ctx, m, in.list)
	if err != nil {
		return err
	}
	if err := c.keepFindings(m, name, findings); err != nil {
		return err
	}
	if err := c.advice(ctx, m); err != nil {
		return err
	}
	fmt.Fprint(c.env.Stdout, service.PrintableLines(actions))
	c.shell().Printf("%s is imported. Start this server, and do not start the other server again.\n", name)
	return nil
}

// keepFindings saves findings for `holdfast check`.
func (c *command) keepFindings(m *importing.Import, name string, findings importing.Findings) error {
	var from []string
	for _, p := range m.Parts {
		from = append(from, p.Source.Where())
	}
	findings.At, findings.From = m.Now(), strings.Join(from, ", ")
	if len(findings.Kinds) > 0 {
		if err := durable.MakeFolder(c.data); err != nil {
			return err
		}
	}
	return findings.Save(c.data, name)
}

// advice prints the steps before the first start.
func (c *command) advice(ctx context.Context, m *importing.Import) error {
	for _, p := range m.Parts {
		lines, err := p.Source.Advice(ctx)
		if err != nil {
			return err
		}
		for _, line := range lines {
			c.shell().Printf("%s\n", line)
		}
	}
	return nil
}

// passEvery is how often changes are copied while a question is open.
const passEvery = 10 * time.Second

// quiet is short, because clients wait, but longer than the pauses between the writes of a busy server.
const quiet = 3 * time.Second

var errNotStopped = errors.New("the import is not complete: everything is copied except later changes. " +
	"Stop the other server, then run the same command with --stopped")

// stopped waits until the operator confirms that the other server is stopped, and copies changes with pass meanwhile,
// so that few are left. asked counts the earlier questions in this run: the other server wrote after a confirmation.
// Without a terminal it returns errNotStopped.
func (c *command) stopped(ctx context.Context, confirmed bool, asked int, pass func(context.Context) error) error {
	sh := c.shell()
	switch {
	case confirmed && asked == 0:
		return nil
	case confirmed:
		return errors.New("the import is not complete: the other server still writes. Stop it, then run the same command again")
	case !sh.CanAsk():
		return errNotStopped
	}
	answer := make(chan bool, 1)
	go func() { answer <- sh.Confirm("Everything is copied. Stop the other server now. Is it stopped?") }()
	tick := time.NewTicker(passEvery)
	defer tick.Stop()
	for {
		select {
		case yes := <-answer:
			if !yes {
				return errNotStopped
			}
			return nil
		case <-ctx.Done():
			fmt.Fprintln(c.env.Stderr)
			return ctx.Err()
		case <-tick.C:
			if err := pass(ctx); err != nil {
				fmt.Fprintln(c.env.Stderr)
				return err
			}
		}
	}
}

// verifyImport compares the databases. end finishes the progress bar.
func (c *command) verifyImport(ctx context.Context, m *importing.Import, end func()) error {
	differences := int64(0)
	n, err := m.Verify(ctx, c.differences(&differences))
	end()
	err = c.verified(n, differences, err)
	if differences > 0 {
		err = fmt.Errorf("%w: the import is not complete, or one of the databases changed since. If the other server wrote, "+
			"move the imported databases away (on PostgreSQL, rename the database) and import again", err)
	}
	return err
}

// dryRunImport prints the rows to import, the rows with problems, and the advice. Nothing is written.
func (c *command) dryRunImport(ctx context.Context, m *importing.Import, list string) error {
	tables, err := m.DryRun(ctx)
	if err != nil {
		return err
	}
	if err := c.tableSizes(tables); err != nil {
		return err
	}
	actions, _, err := c.problems(ctx, m, list)
	if err != nil {
		return err
	}
	for _, p := range m.Parts {
		c.shell().Printf("%s would be imported from %s to %s\n", p.Service.Name, p.Source.Where(), p.Database.Where)
	}
	if err := c.advice(ctx, m); err != nil {
		return err
	}
	fmt.Fprint(c.env.Stdout, service.PrintableLines(actions))
	return nil
}
