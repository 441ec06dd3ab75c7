package ext

import (
	"context"
	"fmt"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/operate"
)

// deleteHelp is the part of the help that both deletions share.
const deleteHelp = "Data is deleted in small steps while servers run and other installs write. From the first step on, tokens get\n" +
	"403 INSTALL_DELETED. If the command is interrupted, run it again to continue; a server stops after 20 seconds, and\n" +
	"the state is deleting. An audit event reports the counts. This cannot be undone: first export the data to keep.\n\n" +
	"An ID without data and registration is an error unless --allow-missing is set, because it may be mistyped. A\n" +
	"deleted ID stays known until all existing tokens expire.\n\n"

// installDeletion declares installs/delete.
func (s *Extensions) installDeletion() operate.Operation {
	return deletion(s, operate.About{
		Path: "installs/delete", Doc: "Delete an install: records, schemas, changes, revoked tokens and its registration",
		More: "The install may be registered or not.\n\n" + deleteHelp +
			"The install stays closed until all existing tokens expire. To use its ID again before that, without its old\n" +
			"data, run ext installs restore.",
		Example: "--tenant $TENANT --install $INSTALL --dry-run\n--tenant $TENANT --install $INSTALL --yes\n",
		Title:   "Delete the install", Text: "Records, schemas, changes and revoked tokens are deleted.", Button: "Delete install",
	}, func(in deleteInstallInput) (ext.Owner, deleteInput, error) {
		o, err := in.owner()
		return o, in.deleteInput, err
	})
}

// tenantDeletion declares tenants/delete.
func (s *Extensions) tenantDeletion() operate.Operation {
	return deletion(s, operate.About{
		Path: "tenants/delete", Doc: "Delete a tenant with all its installs",
		More: "The installs, registered or not, are deleted with everything that belongs to them.\n\n" + deleteHelp +
			"The tenant stays closed, also for new installs, until all existing tokens expire. To use its ID again before\n" +
			"that, run ext tenants restore.",
		Example: "--tenant $TENANT --dry-run\n--tenant $TENANT --yes\n",
		Title:   "Delete the tenant", Text: "All the tenant's installs are deleted with their data.", Button: "Delete tenant",
	}, func(in deleteTenantInput) (ext.Owner, deleteInput, error) {
		o, err := in.owner()
		return ext.Services(o.Tenant), in.deleteInput, err
	})
}

// deletion declares a deletion. named returns the install, or the tenant as ext.Services, and the options.
func deletion[In any](s *Extensions, a operate.About, named func(In) (ext.Owner, deleteInput, error)) operate.Operation {
	a.Counts, a.Ask, a.Retypes, a.Stays, a.Danger, a.NeedsYes = "records", "This cannot be undone.", true, true, true, true
	return operate.NewJob(a, func(ctx context.Context, in In, progress operate.Progress) (deletionOutput, error) {
		o, options, err := named(in)
		if err != nil {
			return deletionOutput{}, err
		}
		return s.delete(ctx, o, options, progress)
	})
}

// deleteInput are the options of both deletions.
type deleteInput struct {
	DryRun       bool `flag:"dry-run" doc:"show the effect without deleting anything"`
	AllowMissing bool `flag:"allow-missing" doc:"succeed for an unknown ID, and refuse its tokens"`
}

type deleteInstallInput struct {
	installInput
	deleteInput
}

type deleteTenantInput struct {
	tenantInput
	deleteInput
}

// deletionOutput counts deleted rows; in a dry run, rows to delete.
type deletionOutput struct {
	Tenant     string    `json:"tenant" subject:"tenant"`
	Install    string    `json:"install,omitempty"`
	State      string    `json:"state" enum:"active,deleting,deleted" doc:"deleting: run the command again to continue"`
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	ext.Holdings
	service.Deleted

	// dry says that nothing was deleted; of names the install or the tenant, and is "" before the deletion began.
	dry bool
	of  string
}

// IsPartial reports that the deletion must be continued.
func (d deletionOutput) IsPartial() bool { return d.State == stateDeleting && !d.dry }

// Notice lists the counts, and the backups that still hold the data.
func (d deletionOutput) Notice() string {
	switch {
	case d.of == "":
		return ""
	case d.IsPartial():
		return "deleted " + service.Count(d.Records, "record") + " of " + d.of + " so far: delete it again to continue"
	}
	text := "deleted " + d.of + " at " + service.FormatMillis(d.FinishedAt.UnixMilli()) + " with"
	if d.dry {
		text = "would be deleted from " + d.of + ":"
	}
	if d.Install == "" {
		text += " " + service.Count(d.Installs, "install") + ","
	}
	return fmt.Sprintf("%s %s, %s, %s, %s, %s, %s%s", text, service.Count(d.Records, "record"), service.Count(d.Bytes, "byte"), service.Count(d.Schemas, "schema"),
		service.Count(d.Changes, "change"), service.Count(d.Answers, "kept answer"), service.Count(d.Tokens, "revoked token"), d.Retained.Notice())
}

// outputOfDeletion describes a deletion that began, or in a dry run might begin. holds are the counts to show.
func outputOfDeletion(o ext.Owner, d *ext.Deletion, holds ext.Holdings) deletionOutput {
	out := deletionOutput{
		Tenant: string(o.Tenant), State: deletionState(d), StartedAt: service.TimeOf(d.StartedAt), FinishedAt: service.TimeOf(d.FinishedAt),
		Holdings: holds, Deleted: service.Deleted{Retained: service.Copies{}}, of: nameOf(o),
	}
	if o != ext.Services(o.Tenant) {
		out.Install = string(o.Install)
	}
	return out
}

// deletionState returns active if no deletion began.
func deletionState(d *ext.Deletion) string {
	switch {
	case d.FinishedAt != 0:
		return stateDeleted
	case d.StartedAt != 0:
		return stateDeleting
	}
	return "active"
}

// deletionNote returns the warning on the page of a deleted tenant or install, or "".
func deletionNote(what string, began, ended time.Time) string {
	switch {
	case !ended.IsZero():
		return "The " + what + " was deleted at " + service.TimeCell(ended).Text + "."
	case !began.IsZero():
		return "Deleting the " + what + " has started but not finished: delete it again to continue."
	}
	return ""
}

// nameOf names an install or a tenant in messages.
func nameOf(o ext.Owner) string {
	if o == ext.Services(o.Tenant) {
		return "tenant " + string(o.Tenant)
	}
	return fmt.Sprintf("install %s of tenant %s", o.Install, o.Tenant)
}

// deletionTime is how long a server works on a deletion for a request.
const deletionTime = 20 * time.Second

// delete stops after deletionTime, and the next request continues. Commands, which pass a progress, have no time
// limit.
func (s *Extensions) delete(ctx context.Context, o ext.Owner, in deleteInput, progress operate.Progress) (out deletionOutput, err error) {
	if _, err := s.ready(); err != nil {
		return out, err
	}
	what := nameOf(o)
	holds, err := s.opened.Holdings(ctx, o)
	if err != nil {
		return out, err
	}
	if !in.AllowMissing {
		if known, err := s.opened.IsKnown(ctx, o, holds); err != nil {
			return out, err
		} else if !known {
			return out, errcode.Newf(errcode.NotFound, "%s is unknown, without data or registration; check the ID, or delete it anyway with --allow-missing", what)
		}
	}
	if in.DryRun {
		d, err := s.opened.DeletionOf(ctx, o)
		if err != nil {
			return out, err
		}
		out = outputOfDeletion(o, &d, holds)
		out.dry = true
		return out, nil
	}
	d, err := s.deleteSteps(ctx, o, holds.Records, progress)
	switch {
	case err == nil && (d.FinishedAt != 0 || ctx.Err() == nil):
		out = outputOfDeletion(o, &d, d.Deleted)
		out.Deleted, err = s.deps.Deleted(time.Time{}, Name)
		return out, err
	case ctx.Err() != nil:
		return out, fmt.Errorf("%w: run the command again to continue; until then all access to %s is refused", operate.ErrStopped, what)
	}
	return out, fmt.Errorf("%w; run the command again to continue", err)
}

// deleteSteps deletes in steps until nothing is left, the time is over, or ctx ends. records is the total for the
// progress; before is how many records an interrupted deletion deleted earlier.
func (s *Extensions) deleteSteps(ctx context.Context, o ext.Owner, records int64, progress operate.Progress) (ext.Deletion, error) {
	end, before := s.deps.Clock().Add(deletionTime), int64(-1)
	step := func(d ext.Deletion) bool {
		if before < 0 { // left by an interrupted deletion
			before = max(d.Deleted.Records-records, 0)
		}
		progress.Report(d.Deleted.Records-before, records)
		return ctx.Err() == nil && (progress != nil || s.deps.Clock().Before(end))
	}
	by := ext.Caller{Kind: "admin", ID: service.Operator(ctx)}
	if o == ext.Services(o.Tenant) {
		return s.opened.DeleteTenant(ctx, o.Tenant, by, step)
	}
	return s.opened.DeleteInstall(ctx, o, by, step)
}
