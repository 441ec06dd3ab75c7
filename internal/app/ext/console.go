package ext

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/app/service"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/fault"
)

// console returns the pages of the service.
func (s *Extensions) console() *service.Console {
	install, records, schemas := []string{"tenant", "install"}, []string{"tenant", "install", "namespace", "key"}, []string{"tenant", "install", "namespace", "version"}
	return &service.Console{Title: "Extension storage", Backlogs: s.backlogs, Pages: []service.Page{
		{Path: "installs", Title: "Installs", Listed: true, Show: s.showInstalls},
		{Path: "tenants", Title: "Tenants", Listed: true, Show: s.showTenants},
		{Path: "tenant", Title: "Tenant", Show: s.showTenant, Actions: []service.Action{
			{Name: "delete", Logged: []string{"tenant"}, Run: s.deleteTenant},
			{Name: "restore", Logged: []string{"tenant"}, Run: s.restoreTenant},
		}},
		{Path: "install", Title: "Install", Show: s.showInstall, Actions: []service.Action{
			{Name: "open", Reads: true, Run: s.openNamespace},
			{Name: "revoke", Logged: install, Run: s.revokeInstall},
			{Name: "restore", Logged: install, Run: s.restoreInstall},
			{Name: "delete", Logged: install, Run: s.deleteInstall},
		}},
		{Path: "feed", Title: "Changes", Show: s.showFeed},
		{Path: "records", Title: "Records", Show: s.showRecords, Actions: []service.Action{{Name: "create", Logged: records, Run: s.saveRecord}}},
		{Path: "record", Title: "Record", Show: s.showRecord, Actions: []service.Action{
			{Name: "save", Logged: records, Run: s.saveRecord},
			{Name: "delete", Logged: records, Run: s.deleteRecord},
		}},
		{Path: "schemas", Title: "Schemas", Show: s.showSchemas, Actions: []service.Action{
			{Name: "register", Logged: schemas[:3], Run: s.registerDraft},
			{Name: "try", Reads: true, Run: s.tryDraft},
			{Name: "delete-all", Logged: schemas[:3], Run: s.dropAllSchemas},
		}},
		{Path: "schema", Title: "Schema", Show: s.showSchema, Actions: []service.Action{
			{Name: "check", Reads: true, Run: s.checkSchema},
			s.statusAction("activate", ext.Active, schemas), s.statusAction("deprecate", ext.Deprecated, schemas),
			{Name: "delete", Logged: schemas, Run: s.dropSchema},
		}},
	}}
}

// place is what a page is about.
type place struct {
	ext.Owner // the install may be ""

	Namespace ext.Namespace // may be ""
}

// parsePlace reads the names of an address or a form that are required.
func parsePlace(r *service.PageRequest, names ...string) (p place, err error) {
	for _, name := range names {
		text := r.Value(name)
		switch name {
		case "tenant":
			p.Tenant, err = ext.ParseTenantID(text)
		case "install":
			p.Install, err = ext.ParseInstallID(text)
		default:
			p.Namespace, err = ext.ParseNamespace(text)
		}
		if err != nil {
			return p, fault.Newf(fault.Invalid, "%s: %v", name, err)
		}
	}
	return p, nil
}

var (
	parseInstall   = []string{"tenant", "install"}
	parseNamespace = []string{"tenant", "install", "namespace"}
)

// values returns the place as names and values of an address, and more.
func (p place) values(more ...string) []string {
	return append([]string{"tenant", string(p.Tenant), "install", string(p.Install), "namespace", string(p.Namespace)}, more...)
}

// keep returns the place as hidden values of a form, and more.
func (p place) keep(more ...string) map[string]string {
	all := map[string]string{}
	for v := p.values(more...); len(v) > 1; v = v[2:] {
		if v[1] != "" {
			all[v[0]] = v[1]
		}
	}
	return all
}

// trail returns the links to the pages of the tenants, the tenant, the install and the
// namespace, as far as the place names them.
func (p place) trail() []service.Link {
	all := []service.Link{
		{Text: "Tenants", To: "tenants"},
		{Text: string(p.Tenant), To: service.PageLink("tenant", "tenant", string(p.Tenant))},
		{Text: string(p.Install), To: service.PageLink("install", place{Owner: p.Owner}.values()...)},
		{Text: string(p.Namespace), To: service.PageLink("records", p.values()...)},
	}
	return slices.DeleteFunc(all, func(l service.Link) bool { return l.Text == "" })
}

// request is a request of an operator, who may do everything.
func (p place) request(r *service.PageRequest) ext.Request {
	return ext.Request{Grant: ext.Grant{Owner: p.Owner, Every: ext.Read | ext.Modify}, Caller: ext.Caller{Kind: "admin", ID: r.Who}}
}

// explained adds the location in a field or a document to the message of an error.
func explained(field string, err error) error {
	pointer, _ := ext.PointerOf(err)
	if where := field + pointer; where != "" && err != nil {
		return fault.Newf(fault.CodeOf(err), "%s: %v", where, err)
	}
	return err
}

func momentCell(m ext.Moment) service.Cell { return service.MillisCell(int64(m)) }

// shareCell shows how much of a quota is used.
func shareCell(used, quota int64, text func(int64) string) service.Cell {
	return service.Cell{Text: text(used) + " of " + text(quota), Share: float64(used), Most: float64(quota)}
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// The number of rows on a page.
const (
	installRows = ext.MaxPage
	tenantRows  = 25
)

func (s *Extensions) showInstalls(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	tenant := strings.ToLower(strings.TrimSpace(r.Value("tenant")))
	search := []service.Field{{Name: "tenant", Label: "Tenant", Help: "The UUID of the tenant."}}
	t, err := s.installTable(ctx, r, tenant)
	if fault.Is(err, fault.Invalid) {
		return &service.View{Blocks: []service.Block{
			&service.Table{Search: search, Empty: "There are no installs."}, &service.Notice{State: service.Wrong, Text: fault.Message(err) + "."},
		}}, nil
	} else if err != nil {
		return nil, err
	}
	t.Search = search
	return &service.View{Blocks: []service.Block{t}}, nil
}

// installTable returns a page of the installs of a tenant, or of all tenants with "".
func (s *Extensions) installTable(ctx context.Context, r *service.PageRequest, tenant string) (*service.Table, error) {
	span := ext.Span{All: true}
	if tenant != "" {
		id, err := ext.ParseTenantID(tenant)
		if err != nil {
			return nil, fault.Newf(fault.Invalid, "Tenant: %v", err)
		}
		span = ext.Span{Tenant: id}
	}
	if after := r.Value("after"); after != "" {
		first, second, _ := strings.Cut(after, " ")
		p, err := parsePlace(&service.PageRequest{Values: map[string][]string{"tenant": {first}, "install": {second}}}, parseInstall...)
		if err != nil {
			return nil, err
		}
		span.After = p.Owner
	}
	page, err := s.opened.PageInstalls(ctx, span, installRows)
	if err != nil {
		return nil, err
	}
	t := &service.Table{
		Columns: []service.Column{{Title: "Tenant"}, {Title: "Install"}, {Title: "State"}, {Title: "Tier"}, {Title: "Bytes"}, {Title: "Records", Number: true}, {Title: "Namespaces", Number: true}},
		Empty:   "There are no installs.", Keep: []string{"tenant"},
	}
	now := ext.At(s.deps.Clock())
	for i := range page {
		in := &page[i]
		q := in.Registered.Quota(s.opened.QuotaOf(in.Registered.Tier), now)
		t.Rows = append(t.Rows, []service.Cell{
			{Text: string(in.Tenant), To: service.PageLink("tenant", "tenant", string(in.Tenant))},
			{Text: string(in.Install), To: service.PageLink("install", place{Owner: in.Owner}.values()...)},
			service.TextCell(shownState(&in.Registered)), service.TextCell(cmp.Or(in.Registered.Tier, "-")), shareCell(in.Bytes, q.Bytes, service.FormatBytes),
			service.TextCell(decimal(in.Keys)), service.TextCell(decimal(in.Namespaces)),
		})
	}
	if len(page) == installRows {
		last := page[installRows-1].Owner
		t.Next = string(last.Tenant) + " " + string(last.Install)
	}
	return t, nil
}

// shownState is stateOf for any install.
func shownState(in *ext.Install) string {
	if in.CreatedAt == 0 {
		return "not registered"
	}
	return stateOf(in)
}

// showTenants finds tenants by their installs. After a page of those it continues behind the last
// tenant, so it reads few installs of a tenant that has many, and tenants with few at once.
func (s *Extensions) showTenants(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	const lastInstall = "ffffffff-ffff-ffff-ffff-ffffffffffff"
	span := ext.Span{All: true}
	if r.Value("after") != "" {
		p, err := parsePlace(&service.PageRequest{Values: map[string][]string{"tenant": {r.Value("after")}}}, "tenant")
		if err != nil {
			return nil, err
		}
		span.After = ext.Owner{Tenant: p.Tenant, Install: lastInstall}
	}
	t := &service.Table{Columns: []service.Column{{Title: "Tenant"}}, Empty: "There are no tenants."}
	view := &service.View{Blocks: []service.Block{t}}
	for {
		page, err := s.opened.PageInstalls(ctx, span, tenantRows)
		if err != nil {
			return nil, err
		}
		for i := range page {
			tenant := page[i].Tenant
			if tenant == span.After.Tenant {
				continue
			}
			if len(t.Rows) == tenantRows {
				t.Next = string(span.After.Tenant)
				return view, nil
			}
			span.After = ext.Owner{Tenant: tenant, Install: lastInstall}
			t.Rows = append(t.Rows, []service.Cell{{Text: string(tenant), To: service.PageLink("tenant", "tenant", string(tenant))}})
		}
		if len(page) < tenantRows {
			return view, nil
		}
	}
}

func (s *Extensions) showTenant(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	p, err := parsePlace(r, "tenant")
	if err != nil {
		return nil, err
	}
	t, err := s.installTable(ctx, r, string(p.Tenant))
	if err != nil {
		return nil, err
	}
	t.Title = "Installs"
	t.Columns = t.Columns[1:]
	for i := range t.Rows {
		t.Rows[i] = t.Rows[i][1:]
	}
	d, err := s.opened.DeletionOf(ctx, ext.Services(p.Tenant))
	if err != nil {
		return nil, err
	}
	view := &service.View{Title: "Tenant " + string(p.Tenant), Parents: p.trail()[:1]}
	if d.StartedAt != 0 {
		view.Blocks = append(view.Blocks, deletionNotice("tenant", d))
	}
	view.Blocks = append(view.Blocks, t)
	view.Blocks = append(view.Blocks, &service.Links{All: []service.Link{{Text: "Tokens of services", To: service.PageLink("service-tokens", "tenant", string(p.Tenant))}}})
	if d.FinishedAt != 0 {
		view.Blocks = append(view.Blocks, &service.Form{
			Action: "restore", Title: "Restore the tenant", Text: "New tokens are accepted again. Deleted data does not come back.", Submit: "Restore", Keep: p.keep(),
		})
		return view, nil
	}
	view.Blocks = append(view.Blocks, &service.Form{
		Action: "delete", Title: "Delete the tenant", Text: "All installs of the tenant are deleted with their data. This cannot be undone.", Submit: "Delete tenant",
		Danger: true, Confirm: string(p.Tenant), Keep: p.keep(),
	})
	return view, nil
}

func deletionNotice(what string, d ext.Deletion) *service.Notice {
	if d.FinishedAt == 0 {
		return &service.Notice{State: service.Wrong, Text: "The deletion of the " + what + " has begun and is not finished: delete it again to continue."}
	}
	return &service.Notice{State: service.Warning, Text: "The " + what + " was deleted at " + momentCell(d.FinishedAt).Text + "."}
}

func (s *Extensions) showInstall(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	p, err := parsePlace(r, parseInstall...)
	if err != nil {
		return nil, err
	}
	in, err := s.opened.ShowInstall(ctx, p.Owner)
	if err != nil && !errors.Is(err, ext.ErrNoInstall) {
		return nil, err
	}
	now := ext.At(s.deps.Clock())
	usage, err := s.opened.InstallUsage(ctx, p.Owner, now)
	if err != nil {
		return nil, err
	}
	view := &service.View{Title: "Install " + string(p.Install), Parents: p.trail()[:2]}
	if in.Deletion.StartedAt != 0 {
		view.Blocks = append(view.Blocks, deletionNotice("install", in.Deletion))
	} else if in.RevokedAt != 0 {
		view.Blocks = append(view.Blocks, &service.Notice{State: service.Warning, Text: "Access was revoked at " + momentCell(in.RevokedAt).Text + ". The data is kept."})
	}
	q := in.Quota(s.opened.QuotaOf(in.Tier), now)
	view.Blocks = append(view.Blocks, &service.Facts{Rows: []service.Fact{
		{Name: "State", Cell: service.TextCell(shownState(&in))}, {Name: "Tier", Cell: service.TextCell(cmp.Or(in.Tier, "-"))},
		{Name: "Bytes", Cell: shareCell(usage.Counters.Bytes, q.Bytes, service.FormatBytes)},
		{Name: "Namespaces", Cell: shareCell(usage.Counters.Namespaces, q.Namespaces, decimal)},
		{Name: "Registered", Cell: momentCell(in.CreatedAt)}, {Name: "Own quota ends", Cell: momentCell(in.Overrides.Until)},
	}})
	t := &service.Table{Title: "Namespaces", Columns: []service.Column{{Title: "Namespace"}, {Title: "Records"}, {Title: "Bytes", Number: true}, {Title: "Schemas"}}, Empty: "There are no records."}
	for _, n := range usage.Namespaces {
		at := place{p.Owner, n.Namespace}
		t.Rows = append(t.Rows, []service.Cell{
			{Text: string(n.Namespace), To: service.PageLink("records", at.values()...)}, shareCell(n.Keys, q.Keys, decimal),
			service.TextCell(service.FormatBytes(n.Bytes)), {Text: "Schemas", To: service.PageLink("schemas", at.values()...)},
		})
	}
	links := &service.Links{All: []service.Link{
		{Text: "Changes of the install", To: service.PageLink("feed", p.values()...)}, {Text: "Tokens of the install", To: service.PageLink("tokens", p.values()...)},
	}}
	view.Blocks = append(view.Blocks, t, links, &service.Form{
		Action: "open", Title: "Open a namespace", Submit: "Open", Keep: p.keep(), Fields: []service.Field{{Name: "namespace", Label: "Namespace", Help: "It may be new."}},
	})
	view.Blocks = append(view.Blocks, accessForms(p, &in)...)
	return view, nil
}

// accessForms returns the forms that revoke, restore and delete an install.
func accessForms(p place, in *ext.Install) (forms []service.Block) {
	if in.RevokedAt != 0 || in.Deletion.FinishedAt != 0 {
		forms = append(forms, &service.Form{Action: "restore", Title: "Restore access", Text: "Tokens are accepted again; after a deletion only new ones.", Submit: "Restore", Keep: p.keep()})
	} else {
		forms = append(forms, &service.Form{Action: "revoke", Title: "Revoke access", Text: "All tokens of the install are refused. The data is kept.", Submit: "Revoke access", Danger: true, Keep: p.keep()})
	}
	return append(forms, &service.Form{
		Action: "delete", Title: "Delete the install", Text: "Records, schemas, changes and revoked tokens are deleted. This cannot be undone.", Submit: "Delete install",
		Danger: true, Confirm: string(p.Install), Keep: p.keep(),
	})
}

func (s *Extensions) openNamespace(_ context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	p, err := parsePlace(r, parseNamespace...)
	o.Next = service.PageLink("records", p.values()...)
	return o, err
}

func (s *Extensions) revokeInstall(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	p, err := parsePlace(r, parseInstall...)
	if err != nil {
		return o, err
	}
	o.Notice = "access of the install is revoked"
	return o, s.opened.RevokeInstall(ctx, p.Owner)
}

func (s *Extensions) restoreInstall(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	p, err := parsePlace(r, parseInstall...)
	if err != nil {
		return o, err
	}
	in, err := s.opened.ShowInstall(ctx, p.Owner)
	if err != nil {
		return o, err
	}
	if in.Overrides.Until.Reached(ext.At(s.deps.Clock())) {
		in.Overrides = ext.Overrides{}
	}
	_, _, err = s.opened.RegisterInstall(ctx, p.Owner, in.Registration, true)
	o.Notice = "the install can be used again"
	return o, explained("", err)
}

// deletionTime is how long a request deletes. What remains is deleted by the next one.
const deletionTime = 20 * time.Second

// untilLate returns a callback that stops a deletion after deletionTime.
func (s *Extensions) untilLate() func(ext.Deletion) bool {
	end := s.deps.Clock().Add(deletionTime)
	return func(ext.Deletion) bool { return s.deps.Clock().Before(end) }
}

// deleted returns the outcome of a deletion.
func deleted(what string, d ext.Deletion, err error) (service.Outcome, error) {
	if err == nil && d.FinishedAt == 0 {
		return service.Outcome{Notice: "deleted " + service.Count(d.Deleted.Records, "record") + " of the " + what + " so far: delete it again to continue"}, nil
	}
	return service.Outcome{Notice: "deleted the " + what + " with " + service.Count(d.Deleted.Records, "record")}, err
}

func (s *Extensions) deleteInstall(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	p, err := parsePlace(r, parseInstall...)
	if err != nil {
		return o, err
	}
	d, err := s.opened.DeleteInstall(ctx, p.Owner, p.request(r).Caller, s.untilLate())
	return deleted("install", d, err)
}

func (s *Extensions) deleteTenant(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	p, err := parsePlace(r, "tenant")
	if err != nil {
		return o, err
	}
	d, err := s.opened.DeleteTenant(ctx, p.Tenant, p.request(r).Caller, s.untilLate())
	return deleted("tenant", d, err)
}

func (s *Extensions) restoreTenant(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	p, err := parsePlace(r, "tenant")
	if err != nil {
		return o, err
	}
	restored, err := s.opened.RestoreTenant(ctx, p.Tenant)
	if err == nil && !restored {
		err = fault.New(fault.Conflict, "the tenant was not deleted, or its deletion has expired: it can be used")
	}
	o.Notice = "the tenant can be used again, with new tokens"
	return o, err
}
