package guest

import (
	"context"
	"time"

	"holdfast/internal/guest"
	"holdfast/internal/operate"
)

// tenantOperations suspends and reinstates tenants, which events from a broker do as well.
func (s *Guest) tenantOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "tenants", Doc: "List the suspended tenants", Title: "Suspended tenants", Empty: "No tenant is suspended.",
			Group: "Suspend and reinstate tenants",
			Long: "Suspend and reinstate tenants, as received events do: the latest change counts. Handoffs to a suspended tenant\n" +
				"are neither minted nor consumed. Running servers leave its properties out of searches within a minute.",
		}, s.listTenants),
		operate.NewChange(operate.About{
			Path: "tenants/suspend", Doc: "Suspend a tenant", NewRow: true, Title: "Suspend a tenant",
			Text: "No handoff to the tenant is minted or consumed.", Danger: true,
		}, s.setTenant(true)),
		operate.NewChange(operate.About{Path: "tenants/reinstate", Doc: "Reinstate a tenant"}, s.setTenant(false)),
	}
}

// tenantOutput is a suspended tenant. Event is "" if an operator suspended it.
type tenantOutput struct {
	Tenant string    `json:"tenantId" title:"Tenant" subject:"tenant" cursor:"" example:"33333333-2222-4333-8444-555555555555"`
	Reason string    `json:"reason" title:"Reason" example:"unpaid"`
	At     time.Time `json:"suspendedAt" title:"Suspended"`
	Event  string    `json:"event" doc:"ID of the suspending event"`
}

type suspendedInput struct {
	operate.Page[string]
}

// Check requires a tenant ID as the position of a page.
func (in suspendedInput) Check() error {
	if _, ok := guest.ParseTenant(in.After); !ok && in.After != "" {
		return &operate.InputError{Input: "after", Reason: "expected next from the previous page"}
	}
	return nil
}

// listTenants returns suspended tenants only, ordered by ID: the service does not know the others.
func (s *Guest) listTenants(ctx context.Context, in suspendedInput) (all []tenantOutput, err error) {
	p, err := s.parts()
	if err != nil {
		return nil, err
	}
	after, _ := guest.ParseTenant(in.After) // "" on the first page
	suspensions, err := p.tenants.SuspendedTenants(ctx, after, in.Limit)
	for _, t := range suspensions {
		all = append(all, tenantOutput{t.Tenant, t.Reason, t.At, t.Event})
	}
	return all, err
}

type tenantInput struct {
	Tenant string `subject:"tenant" doc:"tenant ID" schema:"TenantID" example:"33333333-2222-4333-8444-555555555555"`
	Reason string `flag:"reason" doc:"reason, shown in the list"`
}

// Check accepts a UUID, or the same number as tnt_ and a ULID.
func (in tenantInput) Check() error {
	if _, ok := guest.ParseTenant(in.Tenant); !ok {
		return &operate.InputError{Input: "tenant", Reason: "expected a UUID, or tnt_ and a ULID"}
	}
	return nil
}

type tenantChanged struct {
	Tenant    string `json:"tenantId" subject:"tenant"`
	Suspended bool   `json:"suspended"`
}

func (t tenantChanged) Notice() string {
	if t.Suspended {
		return "tenant " + t.Tenant + " is suspended"
	}
	return "tenant " + t.Tenant + " is reinstated"
}

// setTenant returns the function that suspends or reinstates. It counts as an event with the current time, so a
// received event with an older time does not undo it.
func (s *Guest) setTenant(suspended bool) func(context.Context, tenantInput) (tenantChanged, error) {
	return func(ctx context.Context, in tenantInput) (tenantChanged, error) {
		p, err := s.parts()
		if err != nil {
			return tenantChanged{}, err
		}
		return tenantChanged{in.Tenant, suspended}, p.tenants.Suspend(ctx, in.Tenant, suspended, in.Reason)
	}
}
