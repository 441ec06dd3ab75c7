package ext

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	ext "holdfast/internal/extstorage"
)

func (c *command) tenant() *cobra.Command {
	cmd := &cobra.Command{Use: "tenant", Short: "Delete a tenant with all its installs"}
	cmd.AddCommand(c.tenantDelete(), c.tenantRestore())
	return cmd
}

// deletionFlags are those of both commands that delete.
type deletionFlags struct{ yes, dryRun, asJSON bool }

func (d *deletionFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&d.yes, "yes", false, "delete without asking; required where there is no terminal")
	f.BoolVar(&d.dryRun, "dry-run", false, "print what would be deleted and change nothing")
	f.BoolVar(&d.asJSON, "json", false, "print the counts as JSON")
	cmd.MarkFlagsMutuallyExclusive("yes", "dry-run")
}

const deleteHelp = "It is deleted in small steps while servers run and other installs write. From the\n" +
	"first step on its tokens get 403 INSTALL_DELETED. If the command is interrupted, run it again to continue.\n" +
	"An audit event reports the counts. This cannot be undone: first export what you want to keep.\n\n"

func (c *command) installDelete() *cobra.Command {
	var o owner
	var d deletionFlags
	cmd := &cobra.Command{
		Use:   "delete --tenant T --install I",
		Short: "Delete an install: records, schemas, changes, revoked tokens and its registration",
		Long: "Delete an install, registered or not, with everything that belongs to it.\n\n" + deleteHelp +
			"Until the tokens of today have expired the install stays closed. To use its ID again before that,\n" +
			"without its old data: ext install set --restore.",
		Example: "  holdfast ext install delete --tenant $TENANT --install $INSTALL --dry-run\n" +
			"  holdfast ext install delete --tenant $TENANT --install $INSTALL --yes",
		Args: service.Args(),
		RunE: c.withInstall(&o, func(ctx context.Context, s *ext.Service, install ext.Owner) error {
			what := fmt.Sprintf("install %s of tenant %s", install.Install, install.Tenant)
			return c.delete(ctx, s, install, what, &d, func(progress func(ext.Deletion) bool) (ext.Deletion, error) {
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
			"Until the tokens of today have expired the tenant stays closed, also for new installs. To use its ID\n" +
			"again before that: ext tenant restore.",
		Example: "  holdfast ext tenant delete --tenant $TENANT --dry-run\n" +
			"  holdfast ext tenant delete --tenant $TENANT --yes",
		Args: service.Args(),
		RunE: c.withService(func(ctx context.Context, s *ext.Service) error {
			who, err := o.parse(false)
			if err != nil {
				return err
			}
			return c.delete(ctx, s, ext.Services(who.Tenant), "tenant "+string(who.Tenant), &d, func(progress func(ext.Deletion) bool) (ext.Deletion, error) {
				return s.DeleteTenant(ctx, who.Tenant, ext.Caller{Kind: "admin"}, progress)
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
		Long: "Let a tenant that was deleted be used again, by tokens that are made from now on. What was deleted\n" +
			"stays deleted, and so do its old installs: begin one anew with ext install set --restore.",
		Args: service.Args(),
		RunE: c.withService(func(ctx context.Context, s *ext.Service) error {
			who, err := o.parse(false)
			if err != nil {
				return err
			}
			restored, err := s.RestoreTenant(ctx, who.Tenant)
			switch {
			case errors.Is(err, ext.ErrInstallDeleted):
				return errors.New("the deletion of the tenant has not finished: run ext tenant delete again first")
			case err != nil:
				return err
			case !restored:
				return errors.New("the tenant was not deleted, or its deletion is so long ago that it can be used again")
			}
			_, err = fmt.Fprintf(c.Stdout, "tenant %s can be used again, with new tokens\n", who.Tenant)
			return err
		}),
	}
	o.tenantFlag(cmd)
	return cmd
}

// delete asks, shows how far the deletion is, and prints what was deleted.
func (c *command) delete(
	ctx context.Context, s *ext.Service, o ext.Owner, what string, flags *deletionFlags,
	run func(progress func(ext.Deletion) bool) (ext.Deletion, error),
) error {
	holds, err := s.Holdings(ctx, o)
	if err != nil {
		return err
	}
	if flags.dryRun {
		return c.printHoldings("would be deleted of "+what, o, &holds, flags.asJSON)
	}
	if !flags.yes {
		if err := c.confirm(what, o, &holds); err != nil {
			return err
		}
	}
	bar := c.Bar("records", holds.Records)
	before := int64(-1)
	d, err := run(func(d ext.Deletion) bool {
		if before < 0 { // of an earlier command
			before = max(d.Deleted.Records-holds.Records, 0)
		}
		bar.Show(d.Deleted.Records - before)
		return ctx.Err() == nil
	})
	bar.End()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: run the command again to go on; until then all access to %s is refused", errStopped, what)
	case err != nil:
		return fmt.Errorf("%w; run the command again to go on", err)
	}
	return c.printHoldings("deleted "+what+" at "+service.FormatMillis(int64(d.FinishedAt)), o, &d.Deleted, flags.asJSON)
}

// confirm asks on a terminal.
func (c *command) confirm(what string, o ext.Owner, holds *ext.Holdings) error {
	in, ok := c.Stdin.(*os.File)
	if !ok || !isTerminal(in) {
		return service.Usagef("--yes is required where there is no terminal to ask on; --dry-run shows what would be deleted")
	}
	if err := c.printHoldings("to be deleted of "+what, o, holds, false); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c.Stdout, "Delete it? It cannot be undone. [y/N] "); err != nil {
		return err
	}
	line, err := bufio.NewReader(in).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); err != nil || answer != "y" && answer != "yes" {
		return errors.New("nothing was deleted")
	}
	return nil
}

// isTerminal reports whether somebody can answer: a service's standard input is
// /dev/null, which is a character device, too.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

func (c *command) printHoldings(title string, o ext.Owner, h *ext.Holdings, asJSON bool) error {
	if asJSON {
		return c.PrintLine(h)
	}
	if _, err := fmt.Fprintln(c.Stdout, title+":"); err != nil {
		return err
	}
	w := c.Table()
	line := func(what string, n int64) { fmt.Fprintf(w, "  %s\t%d\n", what, n) }
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
		Long: "List the installs that are registered, revoked, or deleted not long ago, with the data that they hold.\n" +
			"With --revoked list only those whose access was ended, and how to delete them.",
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
	cmd.Flags().BoolVar(&revoked, "revoked", false, "only installs whose access was ended")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each install")
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
		if _, err := fmt.Fprintf(c.Stdout, installRow, "TENANT", "INSTALL", "STATE", "RECORDS", "BYTES", "SCHEMAS", "CHANGES"); err != nil {
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
		_, err = fmt.Fprintf(c.Stdout, installRow, in.Tenant, in.Install, line.State, holds.Records, holds.Bytes, holds.Schemas, holds.Changes)
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

// stateOf is what an install may do.
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
