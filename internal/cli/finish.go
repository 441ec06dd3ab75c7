package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app"
	"holdfast/internal/app/service"
	"holdfast/internal/restore"
)

// finish runs the steps of a restore for clients on databases that another program restored, such as PostgreSQL's
// point-in-time recovery, Spanner's backups, or a copy of files. All steps may be repeated.
func (c *command) finish() *cobra.Command {
	var at string
	var services []string
	var known changesFlag
	cmd := &cobra.Command{
		Use:   "finish-restore",
		Short: "Prepare databases that another program restored to an older state",
		Long: "Prepare the configured databases for clients that have seen later writes than the databases contain: skip numbers\n" +
			"that the lost server may have assigned, void handoffs, end open batches, and check incomplete uploads. holdfast restore\n" +
			"does the same. Run this command after another program restored a database to an older state, e.g. PostgreSQL to\n" +
			"a point in time, while no server runs. If it is interrupted, run it again.",
		Example: "  holdfast finish-restore --time 2026-11-21T15:04:05Z\n" +
			"  holdfast finish-restore --time 2026-11-21T15:04:05Z --service extstorage --service tokenserver",
		Args: service.Args(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if at == "" {
				return service.Usagef("--time is required: the moment to which the databases were restored")
			}
			moment, err := parseMoment(at)
			if err != nil {
				return err
			}
			age := c.clock()().Sub(moment)
			if age < -time.Second { // a time without a fraction includes that second
				return service.Usagef("--time: %s is in the future: expected the moment to which the databases were restored", service.FormatMoment(moment))
			}
			if err := errors.Join(c.checkServices(services), known.check()); err != nil {
				return err
			}
			return c.finishServices(cmd, services, moment, known)
		},
	}
	cmd.Flags().StringVar(&at, "time", "", "the `TIME` to which the databases were restored, e.g. 2026-11-21T15:04:05Z; rather too early than too late")
	cmd.Flags().StringArrayVar(&services, "service", nil, "only this `SERVICE`, e.g. extstorage; repeatable")
	known.add(cmd)
	return cmd
}

// finishServices opens the services without migrating them, and refuses outdated tables: the steps know the current
// schema. names nil: all enabled services. moment is the state of the databases. Only when all steps are done it
// removes the marks that keep servers from starting (EndRestore).
func (c *command) finishServices(cmd *cobra.Command, names []string, moment time.Time, known changesFlag) (err error) {
	age := max(0, c.clock()().Sub(moment))
	cfg, err := c.load()
	if err != nil {
		return err
	}
	if names == nil {
		names = c.serviceNames()
	}
	a, err := app.OpenServices(cmd.Context(), names, c.options(cfg, app.ModeKeepSchema))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	var done []string
	for _, s := range a.Services() {
		for _, db := range s.Databases {
			if pending, err := db.Pending(cmd.Context()); err != nil {
				return err
			} else if len(pending) > 0 {
				return fmt.Errorf("%s: the tables in %s are not up to date: run holdfast migrate first", s.Name, db.Where)
			}
		}
		done = append(done, s.Name)
	}
	if err := app.AfterRestore(cmd.Context(), a.Services(), service.Restored{Age: age}, c.step); err != nil {
		return fmt.Errorf("%w; run the command again before a server starts", err)
	}
	if err := restore.End(cmd.Context(), a.Services()); err != nil {
		return fmt.Errorf("%w; run the command again before a server starts", err)
	}
	c.reportUndone(cmd.Context(), a.Services(), moment, known)
	_, err = c.shell().Printf("prepared %s\n", strings.Join(done, ", "))
	return err
}
