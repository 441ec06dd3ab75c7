package ext

import (
	"context"
	"strings"

	"holdfast/internal/app/service"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/inspection"
)

// finds are the hints on the page with the search results.
var finds = []service.Query{
	{What: "Tenants by ID", Example: "7e000000-"}, {What: "Installs by ID", Example: "7e000000-0000-4000"},
	{What: "Records as INSTALL/KEY", Example: "7e000000-0000-4000/booking-"},
	{What: "Records as TENANT/INSTALL/KEY", Example: "7e000000-/7e000000-0000-4000/booking-"},
}

// search finds tenants and installs by UUID prefix, and records after a slash. Other texts find nothing.
func (s *Extensions) search(ctx context.Context, prefix string) (hits []service.Hit, err error) {
	if parts := strings.Split(prefix, "/"); len(parts) > 1 {
		return s.searchRecords(ctx, parts)
	}
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
		if o == ext.Services(o.Tenant) {
			continue
		}
		hits = append(hits, service.Hit{Kind: "Install", Text: string(o.Install), To: service.PageLink("installs/show", "tenant", string(o.Tenant), "install", string(o.Install))})
	}
	return hits, err
}

// searchRecords finds records by INSTALL/KEY or TENANT/INSTALL/KEY, in the first installs with this UUID prefix.
func (s *Extensions) searchRecords(ctx context.Context, parts []string) (hits []service.Hit, err error) {
	tenant := ""
	if len(parts) == 3 {
		tenant, parts = strings.ToLower(parts[0]), parts[1:]
	}
	first, last, ok := uuidRange(strings.ToLower(parts[0]))
	prefix := parts[len(parts)-1]
	if prefix != "" {
		_, err = ext.ParseKey(prefix)
	}
	if !ok || len(parts) != 2 || err != nil {
		return nil, nil //nolint:nilerr // no key begins so
	}
	installs := []ext.Owner{{Tenant: ext.TenantID(tenant), Install: ext.InstallID(first)}}
	if installs[0].Check() != nil || first != last {
		if installs, err = s.inspection.FindInstalls(ctx, ext.InstallID(first), ext.InstallID(last), service.MaxHits); err != nil {
			return nil, err
		}
	}
	for _, o := range installs {
		if len(hits) >= service.MaxHits || !strings.HasPrefix(string(o.Tenant), tenant) || o == ext.Services(o.Tenant) {
			continue
		}
		positions, err := s.inspection.FindRecords(ctx, o, prefix, service.MaxHits-len(hits))
		if err != nil {
			return nil, err
		}
		for _, at := range positions {
			hits = append(hits, service.Hit{
				Kind: "Record", Text: string(at.Namespace) + "/" + string(at.Key),
				To: service.PageLink("record", namespaceRef{o, at.Namespace}.values("key", string(at.Key))...),
			})
		}
	}
	return hits, nil
}

// uuidRange returns the first and the last UUID that begin with prefix, which must be in lower case. It returns false
// if none does.
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
