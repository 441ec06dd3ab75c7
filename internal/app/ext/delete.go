package ext

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/fault"
)

func (c *command) tenant() *cobra.Command {
	cmd := &cobra.Command{Use: "tenant", Short: "Delete a tenant with all its installs"}
	cmd.AddCommand(c.tenantDelete(), c.tenantRestore())
	return cmd
}

// deletionFlags are the flags of both commands that delete.
type deletionFlags struct{ yes, dryRun, missing, asJSON bool }

func (d *deletionFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&d.yes, "yes", false, "delete without asking; required without a terminal")
	f.BoolVar(&d.dryRun, "dry-run", false, "print what would be deleted and change nothing")
	f.BoolVar(&d.missing, "allow-missing", false, "succeed for an ID that is unknown, and refuse its tokens")
	f.BoolVar(&d.asJSON, "json", false, "print the counts as JSON")
	cmd.MarkFlagsMutuallyExclusive("yes", "dry-run")
}

const deleteHelp = "Data is deleted in small steps while servers run and other installs write. From the first\n" +
	"step on, tokens get 403 INSTALL_DELETED. If the command is interrupted, run it again to continue. An\n" +
	"audit event reports the counts. This cannot be undone: export the data that you want to keep first.\n\n" +
	"An ID without data and registration is an error unless --allow-missing is set, because it may be\n" +
	"mistyped. After a deletion its ID is known until the tokens of today have expired.\n\n"

func (c *command) installDelete() *cobra.Command {
	var o owner
	var d deletionFlags
	cmd := &cobra.Command{
		Use:   "delete --tenant T --install I",
		Short: "Delete an install: records, schemas, changes, revoked tokens and its registration",
		Long: "Delete an install, registered or not, with everything that belongs to it.\n\n" + deleteHelp +
			"The install stays closed until the tokens of today have expired. To use its ID again before that,\n" +
			"without its old data, run ext install set --restore.",
		Example: "  holdfast ext install delete --tenant $TENANT --install $INSTALL --dry-run\n" +
			"  holdfast ext install delete --tenant $TENANT --install $INSTALL --yes",
		Args: service.Args(),
		RunE: c.withInstall(&o, func(ctx context.Context, s *ext.Service, install ext.Owner) error {
			what := fmt.Sprintf("install %s of tenant %s", install.Install, install.Tenant)
			return c.delete(ctx, s, deletion{install, what, d}, func(progress func(ext.Deletion) bool) (ext.Deletion, error) {
				return s.DeleteInstall(ctx, install, ext.Caller{Kind: "admin"}, progress)
			})
		}),
	}
	o.flags(cmd)
	_ = cmd.MarkFlagRequired("install")
	d.add(cmd)
	return cmd
}

func (c *command) tenantDelete() *cobra.Command {
	var o owner
	var d deletionFlags
	cmd := &cobra.Command{
		Use:   "delete --tenant T",
		Short: "Delete a tenant with all its installs",
		Long: "Delete a tenant with all its installs, registered or not, and everything that belongs to them.\n\n" + deleteHelp +
			"The tenant stays closed, also for new installs, until the tokens of today have expired. To use its ID\n" +
			"again before that, run ext tenant restore.",
		Example: "  holdfast ext tenant delete --tenant $TENANT --dry-run\n" +
			"  holdfast ext tenant delete --tenant $TENANT --yes",
		Args: service.Args(),
		RunE: c.withTenant(&o, func(ctx context.Context, s *ext.Service, tenant ext.TenantID) error {
			return c.delete(ctx, s, deletion{ext.Services(tenant), "tenant " + string(tenant), d}, func(progress func(ext.Deletion) bool) (ext.Deletion, error) {
				return s.DeleteTenant(ctx, tenant, ext.Caller{Kind: "admin"}, progress)
			})
		}),
	}
	o.tenantFlag(cmd)
	d.add(cmd)
	return cmd
}

func (c *command) tenantRestore() *cobra.Command {
	var o owner
	cmd := &cobra.Command{
		Use:   "restore --tenant T",
		Short: "Allow a deleted tenant to be used again",
		Long: "Allow a deleted tenant to be used again, with tokens created from now on. Deleted data does not come\n" +
			"back, and its old installs stay closed: restore them with ext install set --restore.",
		Args: service.Args(),
		RunE: c.withTenant(&o, func(ctx context.Context, s *ext.Service, tenant ext.TenantID) error {
			restored, err := s.RestoreTenant(ctx, tenant)
			switch {
			case errors.Is(err, ext.ErrInstallDeleted):
				return errors.New("the deletion of the tenant has not finished: run ext tenant delete again first")
			case err != nil:
				return err
			case !restored:
				return errors.New("the tenant was not deleted, or its deletion has expired: it can be used")
			}
			_, err = c.Printf("tenant %s can be used again, with new tokens\n", tenant)
			return err
		}),
	}
	o.tenantFlag(cmd)
	return cmd
}

// deletion is an install or a tenant to delete.
type deletion struct {
	owner ext.Owner
	name  string // for people
	deletionFlags
}

// delete asks for confirmation, runs the deletion with a progress bar, and prints what
// was deleted.
func (c *command) delete(
	ctx context.Context, s *ext.Service, of deletion,
	run func(progress func(ext.Deletion) bool) (ext.Deletion, error),
) error {
	o, what := of.owner, of.name
	holds, err := s.Holdings(ctx, o)
	if err != nil {
		return err
	}
	if !of.missing {
		if known, err := s.IsKnown(ctx, o, holds); err != nil {
			return err
		} else if !known {
			return fault.Newf(fault.NotFound, "%s is unknown: it has no data and no registration; check the ID, or delete it anyway with --allow-missing", what)
		}
	}
	if of.dryRun {
		return c.printHoldings("would be deleted from "+what, o, &holds, of.asJSON)
	}
	if !of.yes {
		if err := c.confirmDelete(what, o, &holds); err != nil {
			return err
		}
	}
	bar := c.Bar("records", holds.Records)
	before := int64(-1)
	d, err := run(func(d ext.Deletion) bool {
		if before < 0 { // what an interrupted command has deleted
			before = max(d.Deleted.Records-holds.Records, 0)
		}
		bar.Show(d.Deleted.Records - before)
		return ctx.Err() == nil
	})
	bar.End()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: run the command again to continue; until then all access to %s is refused", errStopped, what)
	case err != nil:
		return fmt.Errorf("%w; run the command again to continue", err)
	}
	return c.printHoldings("deleted "+what+" at "+service.FormatMillis(int64(d.FinishedAt)), o, &d.Deleted, of.asJSON)
}

// confirmDelete asks the operator, who must be at a terminal.
func (c *command) confirmDelete(what string, o ext.Owner, holds *ext.Holdings) error {
	if !c.CanAsk() {
		return service.Usagef("--yes is required without a terminal; --dry-run shows what would be deleted")
	}
	if err := c.printHoldings("data of "+what, o, holds, false); err != nil {
		return err
	}
	if !c.Confirm("Delete all of it? This cannot be undone.") {
		return errors.New("nothing was deleted")
	}
	return nil
}

func (c *command) printHoldings(title string, o ext.Owner, h *ext.Holdings, asJSON bool) error {
	if asJSON {
		return c.PrintLine(h)
	}
	if _, err := fmt.Fprintln(c.Stdout, title+":"); err != nil {
		return err
	}
	w := c.Table()
	line := func(what string, n int64) { w.Printf("  %s\t%d\n", what, n) }
	if o == ext.Services(o.Tenant) {
		line("installs", h.Installs)
	}
	line("records", h.Records)
	line("bytes", h.Bytes)
	line("schemas", h.Schemas)
	line("changes", h.Changes)
	line("kept answers", h.Answers)
	line("revoked tokens", h.Tokens)
	return w.Flush()
}

func (c *command) installList() *cobra.Command {
	var o owner
	var revoked, asJSON bool
	cmd := &cobra.Command{
		Use:   "list [--tenant T] [--revoked]",
		Short: "List registered, revoked and deleted installs with the data that they hold",
		Long: "List the installs that are registered, revoked or recently deleted, with the data that they hold.\n" +
			"With --revoked list only installs without access, and how to delete them.",
		Example: "  holdfast ext install list\n" +
			"  holdfast ext install list --revoked",
		Args: service.Args(),
	}
	cmd.RunE = c.withService(func(ctx context.Context, s *ext.Service) error {
		span := ext.Span{All: true}
		if cmd.Flags().Changed("tenant") {
			who, err := o.parse(false)
			if err != nil {
				return err
			}
			span = ext.Span{Tenant: who.Tenant}
		}
		return c.listInstalls(ctx, s, span, revoked, asJSON)
	})
	cmd.Flags().StringVar(&o.tenant, "tenant", "", "`UUID` of the tenant (default: all)")
	cmd.Flags().BoolVar(&revoked, "revoked", false, "only installs whose access was revoked")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON for each install")
	return cmd
}

// installLine is an install as JSON.
type installLine struct {
	Tenant  ext.TenantID  `json:"tenant"`
	Install ext.InstallID `json:"install"`
	State   string        `json:"state"`
	Tier    string        `json:"tier"`
	ext.Holdings
}

const installRow = "%-36s  %-36s  %-10s  %9v  %14v  %7v  %9v\n"

func (c *command) listInstalls(ctx context.Context, s *ext.Service, span ext.Span, revoked, asJSON bool) error {
	if !asJSON {
		if _, err := c.Printf(installRow, "TENANT", "INSTALL", "STATE", "RECORDS", "BYTES", "SCHEMAS", "CHANGES"); err != nil {
			return err
		}
	}
	holding := 0
	err := s.EachInstall(ctx, span, revoked, func(in *ext.InstallUsage) error {
		holds, err := s.Holdings(ctx, in.Owner)
		if err != nil {
			return err
		}
		if holds != (ext.Holdings{}) {
			holding++
		}
		line := installLine{Tenant: in.Tenant, Install: in.Install, State: stateOf(&in.Registered), Tier: in.Registered.Tier, Holdings: holds}
		if asJSON {
			return c.PrintLine(line)
		}
		_, err = c.Printf(installRow, in.Tenant, in.Install, line.State, holds.Records, holds.Bytes, holds.Schemas, holds.Changes)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return errStopped
	case err == nil && revoked && holding > 0 && !asJSON:
		_, err = fmt.Fprintln(c.Stdout, "\nRevoked installs keep their data. Delete one with:\n\n  holdfast ext install delete --tenant TENANT --install INSTALL")
	}
	return err
}

// stateOf returns the state of an install in lists.
func stateOf(in *ext.Install) string {
	switch {
	case in.Deletion.FinishedAt != 0:
		return "deleted"
	case in.Deletion.StartedAt != 0:
		return "deleting"
	case in.RevokedAt != 0:
		return "revoked"
	}
	return "registered"
}
