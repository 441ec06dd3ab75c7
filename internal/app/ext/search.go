package ext

import (
	"context"
	"strings"

	"holdfast/internal/app/service"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/inspection"
)

// finds lists what search understands.
var finds = []service.Query{{What: "Tenants by ID", Example: "7e000000-"}, {What: "Installs by ID", Example: "7e000000-0000-4000"}}

// search finds tenants and installs by the beginning of their UUIDs.
func (s *Extensions) search(ctx context.Context, prefix string) (hits []service.Hit, err error) {
	first, last, ok := uuidRange(strings.ToLower(prefix))
	if !ok {
		return nil, nil
	}
	tenants, err := s.tenantsIn(ctx, inspection.Span{
		All: true, After: ext.Services(ext.TenantID(first)), Last: ext.Owner{Tenant: ext.TenantID(last), Install: lastInstall},
	}, service.MaxHits)
	if err != nil {
		return nil, err
	}
	for _, t := range tenants {
		hits = append(hits, service.Hit{Kind: "Tenant", Text: t.Tenant, To: service.PageLink("tenants/show", "tenant", t.Tenant)})
	}
	installs, err := s.inspection.FindInstalls(ctx, ext.InstallID(first), ext.InstallID(last), service.MaxHits)
	for _, o := range installs {
		if o == ext.Services(o.Tenant) { // the state of the tenant
			continue
		}
		hits = append(hits, service.Hit{Kind: "Install", Text: string(o.Install), To: service.PageLink("installs/show", "tenant", string(o.Tenant), "install", string(o.Install))})
	}
	return hits, err
}

// uuidRange returns the first and the last UUID that begin with a prefix, in lower case; false if no UUID does.
func uuidRange(prefix string) (first, last string, ok bool) {
	const shape = "00000000-0000-0000-0000-000000000000"
	if prefix == "" || len(prefix) > len(shape) {
		return "", "", false
	}
	for i := range len(prefix) {
		if (shape[i] == '-') != (prefix[i] == '-') || !strings.ContainsRune("0123456789abcdef-", rune(prefix[i])) {
			return "", "", false
		}
	}
	rest := shape[len(prefix):]
	return prefix + rest, prefix + strings.ReplaceAll(rest, "0", "f"), true
}
