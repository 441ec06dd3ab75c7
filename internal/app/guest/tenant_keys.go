package guest

import (
	"context"
	"strings"
	"time"

	"holdfast/internal/guest"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/operate"
)

// tenantKeyOperations declares the Ed25519 keys, which each tenant has for itself.
func (s *Guest) tenantKeyOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "tenant-keys", Rows: "keys", Doc: "List tenants' Ed25519 keys", Title: "Tenant keys", Empty: "There are no Ed25519 keys.",
			Group: "Manage the Ed25519 keys that sign handoffs to a tenant",
			Long: "Manage the Ed25519 keys that sign handoffs to tenants with the algorithm ed25519. Each tenant has an active\n" +
				"key and a next key. Both are published, so sites that verify offline know a key before it signs.",
			Text: "Keys for tenants with the algorithm ed25519. A tenant's public keys are at /bff/consumer/v1/tenants/TENANT/jwks.json: the active key, the next key, and replaced keys whose tokens may still be valid.",
		}, s.listTenantKeys),
		operate.NewChange(operate.About{
			Path: "tenant-keys/create", Doc: "Create a tenant's keys before its first handoff", NewRow: true, Title: "Create keys", Button: "Create keys",
			Text: "The first handoff to a tenant creates its keys. Create them earlier, so that its booking site can fetch them before.",
		}, s.onTenant((*handoffs.Keys).CreateOfTenant)),
		operate.NewChange(operate.About{Path: "tenant-keys/rotate", Doc: "Sign with a tenant's next key; the previous key only verifies"}, s.onTenant((*handoffs.Keys).RotateOfTenant)),
		operate.NewChange(operate.About{
			Path: "tenant-keys/revoke", Doc: "Void all a key's tokens at once and stop publishing it, e.g. after a leak", Danger: true,
			Ask: "All the key's tokens are void at once. An active key is replaced with the next key.",
		}, s.onTenantKey),
	}
}

// tenantKeyOutput is a key without its private part. Next is the position for the next page.
type tenantKeyOutput struct {
	Tenant    string    `json:"tenantId" title:"Tenant" subject:"tenant" example:"33333333-2222-4333-8444-555555555555"`
	ID        string    `json:"id" title:"Key" subject:"key" example:"20261127-mzxw6ytboi2gk"`
	State     string    `json:"state" title:"State" enum:"active,next,verify-only,retired"`
	NotBefore time.Time `json:"notBefore" title:"Added"`
	NotAfter  time.Time `json:"notAfter,omitzero" title:"Replaced"`
	RetiredAt time.Time `json:"retiredAt,omitzero" title:"Retired"`
	Next      string    `json:"-" cursor:""`
}

// outputOfTenantKey shows a key that was never active as next.
func outputOfTenantKey(k handoffs.Key) tenantKeyOutput {
	state := string(k.State)
	if k.IsNext() {
		state = "next"
	}
	return tenantKeyOutput{k.Tenant, k.ID, state, k.NotBefore, k.NotAfter, k.Retired, k.Tenant + "/" + k.ID}
}

func (k tenantKeyOutput) Notice() string {
	return "key " + k.ID + " of tenant " + k.Tenant + " is " + k.State
}

// Offers rotate only on the active key's row: it takes the tenant, not the key.
func (k tenantKeyOutput) Offers(verb string) bool {
	return verb == "revoke" && k.State != string(handoffs.KeyRetired) || verb == "rotate" && k.State == string(handoffs.KeyActive)
}

type tenantKeysInput struct {
	operate.Page[string]
}

// Check requires a position as outputOfTenantKey makes it: TENANT/KEY.
func (in tenantKeysInput) Check() error {
	tenant, _, _ := strings.Cut(in.After, "/")
	if _, ok := guest.ParseTenant(tenant); !ok && in.After != "" {
		return &operate.InputError{Input: "after", Reason: "expected next from the previous page"}
	}
	return in.Page.Check()
}

// listTenantKeys orders by tenant, then by key.
func (s *Guest) listTenantKeys(ctx context.Context, in tenantKeysInput) (all []tenantKeyOutput, err error) {
	h, err := s.ready()
	if err != nil {
		return nil, err
	}
	var after handoffs.Key
	after.Tenant, after.ID, _ = strings.Cut(in.After, "/")
	keys, err := h.Keys.ListOfTenants(ctx, after, in.Limit)
	for _, k := range keys {
		all = append(all, outputOfTenantKey(k))
	}
	return all, err
}

type keyedTenantInput struct {
	Tenant string `subject:"tenant" doc:"tenant ID" schema:"TenantID" example:"33333333-2222-4333-8444-555555555555"`
}

// Check accepts both forms of a tenant ID, as tenantInput does.
func (in keyedTenantInput) Check() error { return tenantInput{Tenant: in.Tenant}.Check() }

// onTenant makes an operation of a change to a tenant's keys. It returns the active key.
func (s *Guest) onTenant(do func(*handoffs.Keys, context.Context, string) (handoffs.Key, error)) func(context.Context, keyedTenantInput) (tenantKeyOutput, error) {
	return func(ctx context.Context, in keyedTenantInput) (tenantKeyOutput, error) {
		h, err := s.ready()
		if err != nil {
			return tenantKeyOutput{}, err
		}
		tenant, _ := guest.ParseTenant(in.Tenant)
		key, err := do(h.Keys, ctx, tenant)
		return outputOfTenantKey(key), err
	}
}

// onTenantKey revokes a key by its ID alone, which is unique among all tenants.
func (s *Guest) onTenantKey(ctx context.Context, in keyInput) (tenantKeyOutput, error) {
	h, err := s.ready()
	if err != nil {
		return tenantKeyOutput{}, err
	}
	key, err := h.Keys.RevokeOfTenant(ctx, in.Key)
	return outputOfTenantKey(key), err
}
