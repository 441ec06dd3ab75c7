package ext

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/operate"
)

// counts omits tenant rows, and installs without records.
var counts = []service.Counted{
	{Of: "install", Table: "ext_storage_usage", Where: holdsRecords},
	{Of: "record", Table: "ext_storage_usage", Where: holdsRecords, Sum: "keys_count"},
}

const holdsRecords = "keys_count > 0 AND closed_seq IS NULL"

func (s *Extensions) console() *service.Console {
	records := []string{"tenant", "install", "namespace", "key"}
	return &service.Console{Title: "Extension storage", Icon: "records", Everyday: []string{"installs", "tenants", "usage"}, Backlogs: s.backlogs, Search: s.search, Choose: s.chooseTier, Finds: finds, Counts: counts, Pages: []service.Page{
		{Path: "installs/show", Access: operate.ForViewers, Show: s.showBrowser, Actions: []service.Action{{Name: "open", Reads: true, Run: s.openNamespace}}},
		{Path: "feed", Title: "Changes", Access: operate.ForViewers, Show: s.showFeed},
		{Path: "records", Title: "Records", Access: operate.ForViewers, Show: s.showRecords, Actions: []service.Action{
			{Name: "delete-chosen", Logged: []string{"tenant", "install", "namespace", "records"}, Run: s.deleteChosen},
		}},
		{Path: createPath, Title: createTitle, Access: operate.ForViewers, Show: s.showCreate, Actions: []service.Action{
			{Name: "create", Logged: records, Run: s.saveRecord},
			{Name: "check", Reads: true, Run: s.checkRecord},
			{Name: "switch", Reads: true, Run: s.switchEditor},
		}},
		{Path: "record", Title: "Record", Access: operate.ForViewers, Show: s.showRecord, Actions: []service.Action{
			{Name: "save", Logged: records, Run: s.saveRecord},
			{Name: "check", Reads: true, Run: s.checkRecord},
			{Name: "switch", Reads: true, Run: s.switchEditor},
			{Name: "delete", Logged: records, Run: s.deleteRecord},
		}},
		{Path: "schemas", Access: operate.ForViewers, Show: s.showDraft, Actions: []service.Action{
			{Name: "register", Logged: parseNamespace, Run: s.registerDraft},
			{Name: "try", Reads: true, Run: s.tryDraft},
			{Name: "check", Reads: true, Run: s.checkDraft},
		}},
		{Path: "schemas/show", Access: operate.ForViewers, Show: s.showVersion},
	}}
}

type place struct {
	ext.Owner

	Namespace ext.Namespace
}

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
			return p, errcode.Newf(errcode.Invalid, "%s: %v", name, err)
		}
	}
	return p, nil
}

var (
	parseInstall   = []string{"tenant", "install"}
	parseNamespace = []string{"tenant", "install", "namespace"}
)

func (p place) values(more ...string) []string {
	return append([]string{"tenant", string(p.Tenant), "install", string(p.Install), "namespace", string(p.Namespace)}, more...)
}

func (p place) keep(more ...string) map[string]string {
	all := map[string]string{}
	for v := p.values(more...); len(v) > 1; v = v[2:] {
		if v[1] != "" {
			all[v[0]] = v[1]
		}
	}
	return all
}

func (p place) trail() []service.Link {
	all := []service.Link{
		{Text: "Tenants", To: "tenants"},
		{Text: string(p.Tenant), To: service.PageLink("tenants/show", "tenant", string(p.Tenant))},
		{Text: string(p.Install), To: service.PageLink("installs/show", place{Owner: p.Owner}.values()...)},
		{Text: string(p.Namespace), To: service.PageLink("records", p.values()...)},
	}
	return slices.DeleteFunc(all, func(l service.Link) bool { return l.Text == "" })
}

func (p place) request(ctx context.Context) ext.Request {
	return ext.Request{Grant: ext.Grant{Owner: p.Owner, Every: ext.Read | ext.Modify}, Caller: ext.Caller{Kind: "admin", ID: service.Operator(ctx)}}
}

func explained(err error) error {
	if pointer, _ := ext.PointerOf(err); pointer != "" {
		return errcode.Newf(errcode.Of(err), "%s: %v", pointer, err)
	}
	return plain(err)
}

func momentCell(m ext.Moment) service.Cell { return service.MillisCell(int64(m)) }

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func (s *Extensions) showBrowser(_ context.Context, r *service.PageRequest) (*service.View, error) {
	p, err := parsePlace(r, parseInstall...)
	if err != nil {
		return nil, err
	}
	return &service.View{Blocks: []service.Block{
		&service.Links{All: []service.Link{{Text: "Install changes", To: service.PageLink("feed", p.values()...)}}},
		&service.Form{
			Action: "open", Title: "Open a namespace", Submit: "Open", Keep: p.keep(), Fields: []service.Field{{Name: "namespace", Label: "Namespace", Help: "It may be new."}},
		},
		s.tierTable(),
	}}, nil
}

func (s *Extensions) tierTable() *service.Table {
	t := &service.Table{Title: "Tiers", Columns: []service.Column{{Title: "Tier"}, {Title: "Bytes", Number: true}, {Title: "Namespaces", Number: true}, {Title: "Keys in each", Number: true}}}
	for _, tier := range append([]string{""}, s.opened.Tiers()...) {
		q := s.opened.QuotaOf(tier)
		t.Rows = append(t.Rows, []service.Cell{
			service.TextCell(cmp.Or(tier, "default")), service.TextCell(service.FormatBytes(q.Bytes)), service.TextCell(decimal(q.Namespaces)), service.TextCell(decimal(q.Keys)),
		})
	}
	return t
}

func (s *Extensions) openNamespace(_ context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	p, err := parsePlace(r, parseNamespace...)
	o.Next = service.PageLink("records", p.values()...)
	return o, err
}
