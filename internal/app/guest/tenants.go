package guest

import (
	"context"
	"time"

	"holdfast/internal/operate"
)

// tenantOutput is a suspended tenant.
type tenantOutput struct {
	Tenant string    `json:"tenantId" title:"Tenant" subject:"tenant"`
	Reason string    `json:"reason" title:"Reason"`
	At     time.Time `json:"suspendedAt" title:"Suspended"`
	Event  string    `json:"event"`
}

func (s *Guest) listTenants(ctx context.Context, _ operate.None) (all []tenantOutput, err error) {
	st, err := s.store()
	if err != nil {
		return nil, err
	}
	found, err := st.SuspendedTenants(ctx)
	for _, t := range found {
		all = append(all, tenantOutput{t.Tenant, t.Reason, t.At, t.Event})
	}
	return all, err
}

type tenantInput struct {
	Tenant string `subject:"tenant" doc:"ID of the tenant"`
	Reason string `flag:"reason" doc:"why; the list shows it"`
}

type tenantChanged struct {
	Tenant    string `json:"tenantId" subject:"tenant"`
	Suspended bool   `json:"suspended"`
}

// Notice implements operate.Changed.
func (t tenantChanged) Notice() string {
	if t.Suspended {
		return "tenant " + t.Tenant + " is suspended"
	}
	return "tenant " + t.Tenant + " is reinstated"
}

// setTenant returns the change that suspends or reinstates a tenant.
func (s *Guest) setTenant(suspended bool) func(context.Context, tenantInput) (tenantChanged, error) {
	return func(ctx context.Context, in tenantInput) (tenantChanged, error) {
		if _, err := s.store(); err != nil {
			return tenantChanged{}, err
		}
		return tenantChanged{in.Tenant, suspended}, s.service.SuspendTenant(ctx, in.Tenant, suspended, in.Reason)
	}
}
