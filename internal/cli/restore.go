package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app"
	"holdfast/internal/app/service"
	"holdfast/internal/backup"
	"holdfast/internal/changes"
	"holdfast/internal/clock"
	"holdfast/internal/conf"
	"holdfast/internal/fserror"
	"holdfast/internal/restore"
)

// restoreFlags are holdfast restore's flags.
type restoreFlags struct {
	trustFlags

	at, identity string   // --time, or ""
	services     []string // empty: all in the backup
	dryRun       bool
	trustDump    bool // the dump's SQL may run as a superuser
	changes      changesFlag
}

// changesFlag names the list of operators' changes of the lost server, which no backup contains.
type changesFlag struct{ file string }

// add declares the flag --changes.
func (f *changesFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "changes", "", "`FILE` with the lost server's operator changes, to print the undone (default changes.jsonl in the data folder)")
	_ = cmd.MarkFlagFilename("changes")
}

// check returns an error if the named file does not exist, before a restore begins.
func (f *changesFlag) check() error {
	if f.file == "" {
		return nil
	}
	found, err := fserror.Exists(f.file)
	if err == nil && !found {
		err = fmt.Errorf("--changes: %s does not exist", f.file)
	}
	return err
}

// reportUndone prints which credentials an operator must check, because changes after the restored moment are undone. The
// data is restored by then, so it only warns about whatever it cannot read.
func (c *command) reportUndone(ctx context.Context, restored []*service.Running, moment time.Time, f changesFlag) {
	lines, unknown := app.Credentials(ctx, restored)
	for _, reason := range unknown {
		c.warn(reason)
	}
	if len(lines) > 0 {
		c.step("what was revoked, limited, locked or deleted after " + service.FormatMoment(moment) + " is not: check these, and change them again")
	}
	for _, line := range lines {
		c.step("  " + line)
	}
	file := cmp.Or(f.file, filepath.Join(c.data, changes.File))
	if found, err := fserror.Exists(file); err != nil || !found {
		if err != nil {
			c.warn("the list of operator changes cannot be read: " + err.Error())
		}
		return
	}
	log := &changes.Log{Log: slog.New(slog.NewTextHandler(c.env.Stderr, nil)), File: file}
	for _, e := range slices.Backward(log.List(&changes.Filter{Since: moment, Limit: math.MaxInt})) {
		if e.Failed == "" {
			c.step(fmt.Sprintf("  undone: %s: %s %s %s: %s", service.FormatMoment(e.At), e.Service, e.Page, e.Action, e.Text()))
		}
	}
}

// warn reports a problem that does not change the exit status.
func (c *command) warn(what string) { fmt.Fprintln(c.env.Stderr, "holdfast: warning: "+what) }

// restore is the command for backups, replicas and dumps; FROM's content decides.
func (c *command) restore() *cobra.Command {
	var f restoreFlags
	cmd := &cobra.Command{
		Use:   "restore FROM",
		Short: "Restore a backup or a replica into a new data folder, or a dump into an empty PostgreSQL database",
		Long: "Restore SQLite databases, the secrets file and object bodies into the data folder (--data), which must be empty or\n" +
			"not exist. FROM is a backup folder, a folder with backup folders (the newest is restored), or the URL of backups or\n" +
			"a replica. Everything is verified. A repository must be signed by the server in --signed-by or in the identity\n" +
			"file; on a terminal, restore asks if nobody names one. The restored databases skip numbers that the lost server may have assigned, and\n" +
			"guests' handoff tokens become void.\n\n" +
			"FROM can also be a dump made by pg_dump --format=custom. It is restored with pg_restore into the empty database that\n" +
			"the services' database_url names, and the tables of an older release are updated. A dump can contain any SQL, which\n" +
			"runs as the role in database_url. So a superuser and similar roles are refused without --trust-dump.",
		Example: "  holdfast restore 's3://my-bucket?prefix=holdfast/' --identity backup.key --dry-run\n" +
			"  holdfast restore 's3://my-bucket?prefix=holdfast/' --identity backup.key\n" +
			"  holdfast restore file:///mnt/disk/replica --time 2026-11-21T15:04:05Z\n" +
			"  holdfast restore /var/backups/holdfast/2026-11-21 --data ./restored\n" +
			"  holdfast restore holdfast.dump",
		Args: service.Args("FROM"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(c.checkServices(f.services), f.changes.check()); err != nil {
				return err
			}
			cfg, err := c.load()
			if err != nil { // fail before an hour of work
				return err
			}
			isDump, err := restore.IsDump(args[0])
			if err != nil {
				return err
			}
			if isDump {
				return c.restoreDump(cmd.Context(), cfg, args[0], &f)
			}
			return c.restoreFolder(cmd.Context(), cfg, args[0], &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.at, "time", "", "restore the newest state at or before this `TIME`, e.g. 2026-11-21T15:04:05Z")
	flags.StringArrayVar(&f.services, "service", nil, "restore only this `SERVICE`, e.g. buckets; repeatable")
	flags.StringVar(&f.identity, "identity", "", "`FILE` with the private key from holdfast backup key, to decrypt")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the databases to restore, and change nothing")
	flags.BoolVar(&f.trustDump, "trust-dump", false, "restore the dump as a superuser: its SQL can run programs on the database server")
	_ = cmd.MarkFlagFilename("identity")
	f.changes.add(cmd)
	f.add(cmd)
	return cmd
}

// checkServices checks the values of --service.
func (c *command) checkServices(names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(c.services, func(s service.Service) bool { return s.Name == name }) {
			return service.Usagef("--service: unknown service %q: expected %s", name, strings.Join(c.serviceNames(), ", "))
		}
	}
	return nil
}

// serviceNames returns all services, also those that are off.
func (c *command) serviceNames() (all []string) {
	for _, s := range c.services {
		all = append(all, s.Name)
	}
	return all
}

// clock returns the clock that a test set, or the system's.
func (c *command) clock() clock.Clock {
	if c.env.Clock != nil {
		return c.env.Clock
	}
	return clock.System
}

// restoreFolder restores a backup or a replica into the data folder. Files that could not be restored are an error,
// after everything else is restored.
func (c *command) restoreFolder(ctx context.Context, cfg *app.Config, from string, f *restoreFlags) (err error) {
	lost := 0
	r := &restore.Request{
		Clouds: c.clouds(), From: from, Known: backup.NamesOf(c.services), Identity: f.identity, Services: f.services, Data: c.data, Clock: c.clock(), Progress: c.step,
		Finish: func(ctx context.Context, restored *restore.Finishing) (err error) {
			lost, err = c.finishRestore(ctx, restored, f.changes)
			return err
		},
	}
	if r.IsURL() {
		if r.Trust, err = c.askTrust(f, r.FromName()); err != nil {
			return err
		}
		if r.AtLeast, err = f.expected(); err != nil {
			return err
		}
	} else if len(f.signedBy) > 0 || f.unsigned || f.atLeast != "" {
		return service.Usagef("--signed-by, --unsigned and --at-least are for backups and replicas at a URL")
	}
	if f.at != "" {
		if r.At, err = parseMoment(f.at); err != nil {
			return err
		}
	}
	if f.dryRun {
		p, err := restore.Look(ctx, r)
		if err != nil {
			return err
		}
		return c.printPlan(cfg, "would restore", p)
	}
	p, err := restore.Run(ctx, r)
	if err != nil {
		return interrupted(ctx, false, err)
	}
	if err := c.printPlan(cfg, restoredVerb, p); err != nil {
		return err
	}
	if lost > 0 {
		return fmt.Errorf("the data was restored without %s: see the lines above", service.Count(int64(lost), "file"))
	}
	return nil
}

const restoredVerb = "restored"

// parseMoment parses --time: RFC 3339, or the printed format. Without a fraction it is the end of the second, as
// lists show seconds.
func parseMoment(text string) (time.Time, error) {
	t, err := time.Parse("2006-01-02 15:04:05 UTC", text)
	if err != nil {
		if t, err = service.ParseTime("--time", text); err != nil {
			return t, err
		}
	}
	if !strings.Contains(text, ".") {
		t = t.Add(time.Second - 1)
	}
	return t, nil
}

// printPlan prints the restored services (verb: or would be), their source, and the lost writes. Notes about the next
// steps go to standard error.
func (c *command) printPlan(cfg *app.Config, verb string, p *restore.Plan) error {
	out := c.shell()
	what := "the secrets file"
	if len(p.Services) > 0 {
		what = strings.Join(p.Services, ", ")
	}
	if _, err := out.Printf("%s %s from %s into %s, as of %s\n", verb, what, p.From, c.data, service.FormatMoment(p.At)); err != nil {
		return err
	}
	if p.Until.After(p.At) {
		if _, err := out.Printf("the source acknowledged writes until %s or later: writes after %s are lost\n", service.FormatMoment(p.Until), service.FormatMoment(p.At)); err != nil {
			return err
		}
	} else if _, err := out.Printf("writes after this moment are not in it\n"); err != nil {
		return err
	}
	if verb == restoredVerb && cfg.Replica.URL+cfg.Backup.URL != "" {
		fmt.Fprintln(c.env.Stderr, "holdfast: note: before a server starts on this folder, set replica.url and backup.url to new locations: it does not write to the lost server's locations")
	}
	if !p.Secrets {
		fmt.Fprintln(c.env.Stderr, "holdfast: warning: the secrets file is not there: set the secrets in the configuration, or restore secrets.toml from another backup before the first start")
	}
	return nil
}

// openRestored opens services on the databases in folder, wherever the configuration says their databases are, and
// even if they are off.
func (c *command) openRestored(ctx context.Context, folder string, services []string, mode app.Mode) (*app.App, error) {
	flags := slices.Clone(c.flags)
	for _, name := range services {
		flags = append(flags, conf.Flag{Name: "holdfast restore", Path: name + ".database_url"}, conf.Flag{Name: "holdfast restore", Path: name + ".enabled", Value: "true"})
	}
	cfg, _, err := app.Load(c.services, c.file, c.env.Environ, flags...)
	if err != nil {
		return nil, err
	}
	o := c.options(cfg, mode)
	o.Data = folder
	return app.OpenServices(ctx, services, o)
}

// finishRestore migrates the restored databases, restores service files, and then prepares the data for clients
// (app.AfterRestore). lost is the number of files that are missing or damaged.
func (c *command) finishRestore(ctx context.Context, f *restore.Finishing, known changesFlag) (lost int, err error) {
	if len(f.Services) == 0 {
		return 0, nil
	}
	a, err := c.openRestored(ctx, f.Folder, f.Services, app.ModeRestore)
	if err != nil {
		return 0, err
	}
	lost, err = f.Files(ctx, a.Services(), c.step)
	if err == nil {
		err = app.AfterRestore(ctx, a.Services(), service.Restored{Age: f.Age}, c.step)
	}
	if err == nil {
		c.reportUndone(ctx, a.Services(), f.Moment, known)
	}
	return lost, errors.Join(err, a.Close())
}

// restoreDump restores a dump into the PostgreSQL database that the services share. restore.DumpTime decides how many
// numbers the steps for clients skip, and which changes of operators are listed.
func (c *command) restoreDump(ctx context.Context, cfg *app.Config, file string, f *restoreFlags) error {
	if f.at != "" || f.identity != "" {
		return service.Usagef("--time and --identity do not apply to a dump")
	}
	made, err := restore.DumpTime(ctx, file)
	if err != nil {
		return err
	}
	names := f.services
	if names == nil {
		names = c.serviceNames()
	}
	a, err := app.OpenServices(ctx, names, c.options(cfg, app.ModeKeepSchema))
	if err != nil {
		return err
	}
	defer func() { _ = a.Close() }()
	dump := &restore.Dump{File: file, Trusted: f.trustDump, Moment: made, Services: a.Services(), Progress: c.step}
	where, err := dump.Check(ctx)
	if err != nil {
		return err
	}
	if f.dryRun {
		_, err := c.shell().Printf("would restore %s into %s\n", file, where)
		return err
	}
	restored, err := dump.Run(ctx)
	if err != nil {
		return err
	}
	fix := "holdfast migrate, and then holdfast finish-restore"
	if err = app.MigrateRestored(ctx, restored, c.step); err == nil {
		fix = "holdfast finish-restore"
		err = app.AfterRestore(ctx, restored, service.Restored{Age: max(0, c.clock()().Sub(made))}, c.step)
	}
	if err != nil {
		return fmt.Errorf("the dump is restored, but no server uses the database before it is prepared: %w; run %s --time %s, or drop the database and restore again",
			err, fix, made.UTC().Format(time.RFC3339))
	}
	if err := restore.End(ctx, a.Services()); err != nil {
		return err
	}
	c.reportUndone(ctx, restored, made, f.changes)
	var done []string
	for _, s := range restored {
		done = append(done, s.Name)
	}
	_, err = c.shell().Printf("restored %s from %s into %s; run holdfast check, and holdfast migrate if it asks for that\n", strings.Join(done, ", "), file, where)
	return err
}
