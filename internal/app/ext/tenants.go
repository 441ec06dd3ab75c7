package ext

import (
	"context"
	"errors"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/inspection"
	"holdfast/internal/operate"
)

// tenantOperations declares the operations on whole tenants. A tenant exists by its installs, so there is no operation
// that creates it.
func (s *Extensions) tenantOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "tenants", Doc: "List tenants with installs", Title: "Tenants", Empty: "There are no tenants.", PageRows: ext.MaxPage,
			Group: "Show, delete and restore tenants with all their installs",
		}, on(s, s.listTenants)),
		operate.NewRead(operate.About{Access: operate.ForViewers, Path: "tenants/show", Doc: "Show whether a tenant is deleted", Title: "Tenant"}, on(s, s.showTenant)),
		operate.NewChange(operate.About{
			Path: "tenants/restore", Doc: "Allow a deleted tenant to be used again", Button: "Restore", Stays: true,
			More: "It can be used with tokens created from now on. Deleted data does not come back, and its old installs stay\n" +
				"closed: restore them with ext installs restore.",
		}, on(s, s.restoreTenant)),
		s.tenantDeletion(),
	}
}

// tenantOutput is a tenant with at least one install, or a record of its deletion.
type tenantOutput struct {
	Tenant string `json:"tenant" title:"Tenant" subject:"tenant" cursor:""`
}

// tenantRows is how many installs are read at once to list tenants.
const tenantRows = 25

// listTenants finds tenants by their installs. After each page it skips to the next tenant, so that large tenants need
// few reads.
func (s *Extensions) listTenants(ctx context.Context, in operate.Page[string]) (all []tenantOutput, err error) {
	span := inspection.Span{All: true}
	if in.After != "" {
		o, err := tenantInput{in.After}.owner()
		if err != nil {
			return nil, &operate.InputError{Input: "after", Reason: "expected next from the previous page"}
		}
		span.After = ext.Owner{Tenant: o.Tenant, Install: lastInstall}
	}
	return s.tenantsIn(ctx, span, in.Limit)
}

// lastInstall is the greatest install ID, so that a span after it begins with the next tenant.
const lastInstall = "ffffffff-ffff-ffff-ffff-ffffffffffff"

// tenantsIn returns at most limit tenants in a span.
func (s *Extensions) tenantsIn(ctx context.Context, span inspection.Span, limit int) (all []tenantOutput, err error) {
	var last ext.TenantID
	if span.After.Install == lastInstall {
		last = span.After.Tenant
	}
	for {
		page, err := s.inspection.PageInstalls(ctx, span, false, tenantRows)
		if err != nil {
			return nil, err
		}
		for i := range page {
			if tenant := page[i].Tenant; tenant != last {
				last = tenant
				span.After = ext.Owner{Tenant: tenant, Install: lastInstall}
				if all = append(all, tenantOutput{string(tenant)}); len(all) == limit {
					return all, nil
				}
			}
		}
		if len(page) < tenantRows {
			return all, nil
		}
	}
}

// tenantDetail says whether a tenant is deleted. The times are zero if it is active.
type tenantDetail struct {
	Tenant   string    `json:"tenant" title:"Tenant" subject:"tenant"`
	State    string    `json:"state" title:"State" enum:"active,deleting,deleted"`
	Deleting time.Time `json:"deletingAt,omitzero" title:"Deletion began"`
	Deleted  time.Time `json:"deletedAt,omitzero" title:"Deleted"`
}

// Note warns that tokens are refused.
func (d tenantDetail) Note() string { return deletionNote("tenant", d.Deleting, d.Deleted) }

// Offers restore for a deleted tenant, and delete for the others.
func (d tenantDetail) Offers(verb string) bool {
	return (verb == "restore") == (d.State == stateDeleted)
}

// showTenant returns errcode.NotFound for a tenant without installs whose deletion is not on record.
func (s *Extensions) showTenant(ctx context.Context, in tenantInput) (d tenantDetail, err error) {
	o, err := in.owner()
	if err != nil {
		return d, err
	}
	deletion, err := s.opened.DeletionOf(ctx, ext.Services(o.Tenant))
	if err != nil {
		return d, err
	}
	some, err := s.inspection.PageInstalls(ctx, inspection.Span{Tenant: o.Tenant}, false, 1)
	if err == nil && len(some) == 0 && deletion.StartedAt == 0 {
		err = errcode.New(errcode.NotFound, "the tenant has no installs")
	}
	return tenantDetail{in.Tenant, deletionState(&deletion), service.TimeOf(deletion.StartedAt), service.TimeOf(deletion.FinishedAt)}, err
}

// tenantChange is the restored tenant.
type tenantChange struct {
	Tenant string `json:"tenant" subject:"tenant"`
}

func (tenantChange) Notice() string { return "the tenant can be used again, with new tokens" }

// restoreTenant accepts new tokens. It returns errcode.Conflict while the deletion is unfinished, or if there is
// nothing to restore.
func (s *Extensions) restoreTenant(ctx context.Context, in tenantInput) (c tenantChange, err error) {
	o, err := in.owner()
	if err != nil {
		return c, err
	}
	restored, err := s.opened.RestoreTenant(ctx, o.Tenant)
	switch {
	case errors.Is(err, ext.ErrInstallDeleted):
		err = errcode.New(errcode.Conflict, "deleting the tenant has not finished: run ext tenants delete again first")
	case err == nil && !restored:
		err = errcode.New(errcode.Conflict, "the tenant was not deleted, or its deletion record has expired: it can be used")
	}
	return tenantChange(in), err
}
