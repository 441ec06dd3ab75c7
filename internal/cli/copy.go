package cli

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app"
	"holdfast/internal/app/service"
	"holdfast/internal/conf"
	"holdfast/internal/copying"
)

// copyMemory is mostly for row batches. Without a limit, garbage would grow to several times their size.
const copyMemory = 22<<20 + app.HeapFloor // the runtime counts the floor

// copyService is the command for a copy, its dry run, its verification, and for making the source writable again. It
// opens source and target with two configurations that differ only in database_url, and closes both also after an
// error.
func (c *command) copyService() *cobra.Command {
	var to string
	var limits copyLimits
	var dryRun, verify, reopen bool
	cmd := &cobra.Command{
		Use:   "copy SERVICE --to URL",
		Short: "Copy a service's database to another engine while servers run",
		Long: "Copy a service's database, e.g. syncstorage, to an empty database: between SQLite, PostgreSQL and Citus, and\n" +
			"syncstorage also from and to Spanner, with the configured tokenserver. Servers continue to use the source, which\n" +
			"logs their changes. For the last pass the service becomes read-only: clients get 503 and repeat their writes.\n" +
			"When all owners are compared and equal, copy prints the new database_url, and the source stays read-only, so\n" +
			"that no server with the old configuration can write to it. Run the same command again after an interruption. If\n" +
			"clients change rows faster than they are copied, --finish-within slows them.",
		Example: "  holdfast copy extstorage --to postgres://holdfast@db/ext --dry-run\n" +
			"  holdfast copy extstorage --to postgres://holdfast@db/ext\n" +
			"  holdfast copy extstorage --to postgres://holdfast@db/ext --finish-within 2h\n" +
			"  holdfast copy extstorage --reopen    # go on with the source instead",
		Args: service.Args("SERVICE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if err := limits.check(); err != nil {
				return err
			}
			defer debug.SetMemoryLimit(debug.SetMemoryLimit(copyMemory))
			source, err := c.openOne(ctx, args[0], "", app.ModeCopyRead)
			if err != nil {
				return err
			}
			if reopen {
				return errors.Join(c.reopen(ctx, source), source.Close())
			}
			if to == "" {
				return errors.Join(service.Usagef("--to is required"), source.Close())
			}
			mode := targetMode(dryRun, verify)
			target, err := c.openOne(ctx, args[0], to, mode)
			if err != nil {
				return errors.Join(err, source.Close())
			}
			copied, end := c.newCopy(source, target)
			defer end()
			closeOwners, err := c.openOwners(ctx, source, copied)
			if err != nil {
				return errors.Join(err, target.Close(), source.Close())
			}
			switch {
			case dryRun:
				err = c.dryRunCopy(ctx, copied)
			case verify:
				err = c.verifyCopy(ctx, copied, end)
			default:
				copied.FinishWithin, copied.MaxChanges = limits.finishWithin, limits.maxChanges
				err = c.runCopy(ctx, copied, to, end)
			}
			return errors.Join(interrupted(ctx, mode == app.ModeCopyWrite, err), closeOwners(), target.Close(), source.Close())
		},
	}
	f := cmd.Flags()
	f.StringVar(&to, "to", "", "target `URL`, as for database_url")
	f.Var((*durationFlag)(&limits.finishWithin), "finish-within", "slow writers so that the copy ends within this `DURATION`, e.g. 2h")
	f.Int64Var(&limits.maxChanges, "max-changes", copying.DefaultMaxChanges, "stop the copy if this `NUMBER` of changed rows waits, up to 200 bytes each")
	f.BoolVar(&dryRun, "dry-run", false, "check both databases and print the rows to copy")
	f.BoolVar(&verify, "verify", false, "only compare the databases, owner by owner")
	f.BoolVar(&reopen, "reopen", false, "make the source writable again")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "verify", "reopen")
	cmd.MarkFlagsMutuallyExclusive("to", "reopen")
	return cmd
}

// targetMode returns the mode for the target of a copy or an import with these flags.
func targetMode(dryRun, verify bool) app.Mode {
	switch {
	case dryRun:
		return app.ModeCopyDryRun
	case verify:
		return app.ModeCopyRead
	}
	return app.ModeCopyWrite
}

// interrupted replaces a canceled context's error, which depends on the moment, by advice. writes: the same
// command can continue.
func interrupted(ctx context.Context, writes bool, err error) error {
	switch {
	case err == nil || ctx.Err() == nil:
		return err
	case writes:
		return errors.New("interrupted: run the same command again to continue")
	}
	return errors.New("interrupted")
}

// openOwners opens the service whose accounts own the data, if the copy needs it to list owners, with its configured
// database. It reads the configuration again, because opened services keep their sections. closeIt is never nil
// without an error.
func (c *command) openOwners(ctx context.Context, source *app.One, copied *copying.Copy) (closeIt func() error, err error) {
	if !copied.NeedsOwners() {
		return func() error { return nil }, nil
	}
	cfg, _, err := app.Load(app.Services(c.env.Engines...), c.file, c.env.Environ, c.flags...)
	if err != nil {
		return nil, err
	}
	return source.OpenOwners(ctx, copied, c.options(cfg, app.ModeCopyRead))
}

// openOne opens a single service: its configured database as the source, or, if url is not "", that database as the
// target. Each call makes new services, because two open databases need two sections. Warnings about the
// configuration are printed only for the source.
func (c *command) openOne(ctx context.Context, name, url string, mode app.Mode) (*app.One, error) {
	services, flags := app.Services(c.env.Engines...), c.flags
	i := slices.IndexFunc(services, func(s service.Service) bool { return s.Name == name })
	if i < 0 {
		var names []string
		for _, s := range services {
			if s.Tables != nil {
				names = append(names, s.Name)
			}
		}
		return nil, service.Usagef("unknown service: expected %s", strings.Join(names, ", "))
	}
	if url != "" {
		flags = append(slices.Clone(flags), conf.Flag{Name: "--to", Path: name + ".database_url", Value: url})
	}
	cfg, report, err := app.Load(services, c.file, c.env.Environ, flags...)
	if url == "" {
		c.print(report)
	}
	if err != nil {
		if url != "" {
			err = fmt.Errorf("--to: %w", err)
		}
		return nil, err
	}
	o := c.options(cfg, mode)
	if url == "" {
		return app.OpenOne(ctx, name, o)
	}
	return app.OpenTarget(ctx, name, o)
}

// newCopy returns a copy that reports to the terminal. end ends the progress line and may be called several times.
func (c *command) newCopy(source, target *app.One) (copied *copying.Copy, end func()) {
	copied = source.NewCopy(target.Database)
	var line func(string)
	copied.Report, copied.Progress, line, end = c.bars()
	copied.Estimate = func(e copying.Estimate) { line(e.String()) }
	return copied, end
}

// bars returns functions that share a progress bar on standard error: report prints a line above it, progress moves
// it, line shows a text in its place, and end finishes it before other output. A new kind of rows starts a new bar.
func (c *command) bars() (report func(string), progress func(what string, done, total int64), line func(string), end func()) {
	bar, what := c.shell().Bar("rows", 0), "rows"
	report = func(line string) {
		bar.End()
		fmt.Fprintln(c.env.Stderr, line)
		bar = c.shell().Bar(what, 0)
	}
	progress = func(now string, done, total int64) {
		if now != what {
			bar.End()
			what, bar = now, c.shell().Bar(now, total)
		}
		bar.ShowOf(done, total)
	}
	end = func() {
		bar.End()
		bar = c.shell().Bar(what, 0)
	}
	return report, progress, func(text string) { bar.ShowLine(text) }, end
}

// copyLimits are the flags that limit a copy beside writers.
type copyLimits struct {
	finishWithin time.Duration // --finish-within; 0: do not slow writers
	maxChanges   int64         // --max-changes, in rows
}

func (l copyLimits) check() error {
	switch {
	case l.finishWithin < 0:
		return service.Usagef("--finish-within: invalid value %s: expected a positive duration", l.finishWithin)
	case l.maxChanges < 1:
		return service.Usagef("--max-changes: invalid value %d: expected a positive number", l.maxChanges)
	}
	return nil
}

// runCopy migrates the target and copies. It ends by printing the setting for every server; url is --to as it was
// typed, with the password that the setting needs.
func (c *command) runCopy(ctx context.Context, copied *copying.Copy, url string, end func()) error {
	if _, err := copied.Target.Migrate(ctx); err != nil {
		return fmt.Errorf("%s: %w", copied.Target.Where, err)
	}
	if err := copied.Run(ctx); err != nil {
		return err
	}
	end()
	name := copied.Service
	c.shell().Printf("%s is copied to %s. Its source is read-only. Set this in every server's configuration and restart it:\n\n"+
		"[%s]\ndatabase_url = %q\n\n%s\n\nTo continue with the source instead: holdfast copy %s --reopen\n", name, copied.Target.Where, name, url, copied.BackedUpBy(), name)
	return nil
}

// dryRunCopy checks both databases and prints row counts. Nothing is written.
func (c *command) dryRunCopy(ctx context.Context, copied *copying.Copy) error {
	tables, err := copied.DryRun(ctx)
	if err != nil {
		return err
	}
	if err := c.tableSizes(tables); err != nil {
		return err
	}
	_, err = c.shell().Printf("\n%s would be copied to %s\n", copied.Source.Where, copied.Target.Where)
	return err
}

// tableSizes prints a table's name and its rows on each line.
func (c *command) tableSizes(all []copying.TableSize) error {
	w := c.shell().Table()
	w.Printf("TABLE\tROWS\n")
	for _, t := range all {
		w.Printf("%s\t%d\n", t.Name, t.Rows)
	}
	return w.Flush()
}

// verifyCopy compares the databases while servers may write, so that it can find differences that are only late
// changes.
func (c *command) verifyCopy(ctx context.Context, copied *copying.Copy, end func()) error {
	differences := int64(0)
	n, err := copied.Verify(ctx, c.differences(&differences))
	end()
	return c.verified(n, differences, err)
}

// differences returns a function that counts differences in n and prints the first hundred.
func (c *command) differences(n *int64) func(copying.Difference) {
	return func(d copying.Difference) {
		if *n++; *n <= 100 {
			c.shell().Printf("%s\n", d)
		}
	}
}

// verified prints how a comparison ended, or returns an error if there were differences. n counts compared rows,
// differences counts different owners.
func (c *command) verified(n, differences int64, err error) error {
	switch {
	case err != nil:
		return err
	case differences > 0:
		return fmt.Errorf("%s: different in source and target", service.Count(differences, "owner"))
	}
	c.shell().Printf("%s in source and target are equal\n", service.Count(n, "row"))
	return nil
}

// reopen makes the source writable and ends its change log; a later copy begins anew.
func (c *command) reopen(ctx context.Context, source *app.One) error {
	db := source.Database.Rows(nil)
	name := source.Service.Name
	if err := errors.Join(db.Reopen(ctx, name, source.Service.Tables), db.Unlog(ctx, name, source.Service.Tables)); err != nil {
		return err
	}
	_, err := c.shell().Printf("%s accepts writes in %s; use only this database, and drop the copy\n", name, source.Database.Where)
	return err
}
