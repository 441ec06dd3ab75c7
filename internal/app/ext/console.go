package ext

import (
	"cmp"
	"context"
	"fmt"
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

// holdsRecords excludes installs that are closed by a deletion.
const holdsRecords = "keys_count > 0 AND closed_seq IS NULL"

// console returns the pages that need more than an operation's form: the records with their editor, and the drafts.
// Pages without Listed need values, and are reached by links.
func (s *Extensions) console() *service.Console {
	records := []string{"tenant", "install", "namespace", "key"}
	return &service.Console{Title: "Records", Icon: "records", Menu: []service.MenuItem{
		{Title: "Installs", Pages: []string{"installs"}}, {Title: "Tenants", Pages: []string{"tenants"}}, {Title: "Usage", Pages: []string{"usage"}},
		{Title: "Dead letters", Pages: []string{"dead-letters"}}, {Under: service.MenuActivity, Title: "Background jobs", Pages: []string{"runs"}},
	}, Backlogs: s.backlogs, Search: s.search, Choose: s.chooseTier, Finds: finds, Counts: counts, Pages: []service.Page{
		{Path: "installs/show", Access: operate.ForViewers, Show: s.showBrowser, Actions: []service.Action{{Name: "open", Reads: true, Run: s.openNamespace}}},
		{Path: "feed", Title: "Changes", Access: operate.ForViewers, Show: s.showFeed},
		{Path: "records", Title: "Records", Instead: true, Access: operate.ForViewers, Show: s.showRecords, Actions: []service.Action{
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

// namespaceRef names a namespace, or only its install or tenant. The missing parts are "".
type namespaceRef struct {
	ext.Owner

	Namespace ext.Namespace
}

// parseNamespaceRef parses the named values of a page's address. The error names the value.
func parseNamespaceRef(r *service.PageRequest, names ...string) (p namespaceRef, err error) {
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
	// Values for parseNamespaceRef. They also name a changed record in the log, and stay in a table's links.
	parseInstall   = []string{"tenant", "install"}
	parseNamespace = []string{"tenant", "install", "namespace"}
)

// values returns the values for a link. more are further names and values; service.PageLink omits empty values.
func (p namespaceRef) values(more ...string) []string {
	return append([]string{"tenant", string(p.Tenant), "install", string(p.Install), "namespace", string(p.Namespace)}, more...)
}

// keep returns the hidden values of a form.
func (p namespaceRef) keep(more ...string) map[string]string {
	all := map[string]string{}
	for v := p.values(more...); len(v) > 1; v = v[2:] {
		if v[1] != "" {
			all[v[0]] = v[1]
		}
	}
	return all
}

// trail returns the breadcrumbs down to the namespace; parts that are not set are omitted.
func (p namespaceRef) trail() []service.Link {
	all := []service.Link{
		{Text: "Tenants", To: "tenants"},
		{Text: string(p.Tenant), To: service.PageLink("tenants/show", "tenant", string(p.Tenant))},
		{Text: string(p.Install), To: service.PageLink("installs/show", namespaceRef{Owner: p.Owner}.values()...)},
		{Text: string(p.Namespace), To: service.PageLink("records", p.values()...)},
	}
	return slices.DeleteFunc(all, func(l service.Link) bool { return l.Text == "" })
}

// request acts with full access, as the operator who is signed in. The audit names the operator's session.
func (p namespaceRef) request(ctx context.Context) ext.Request {
	return ext.Request{Grant: ext.Grant{Owner: p.Owner, Every: ext.Read | ext.Modify}, Caller: ext.Caller{Kind: "admin", ID: service.Operator(ctx)}}
}

// explained puts an error's JSON pointer, e.g. /value/title, before its text.
func explained(err error) error {
	if pointer, _ := ext.PointerOf(err); pointer != "" {
		return errcode.Rephrase(err, fmt.Sprintf("%s: %s", pointer, ext.MessageOf(err)))
	}
	return plain(err)
}

// momentCell shows "-" for 0.
func momentCell(m ext.Moment) service.Cell { return service.MillisCell(int64(m)) }

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// showBrowser shows a form for a namespace below the install, because a namespace without records is in no list.
func (s *Extensions) showBrowser(_ context.Context, r *service.PageRequest) (*service.View, error) {
	p, err := parseNamespaceRef(r, parseInstall...)
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

// tierTable shows the quotas of each tier, beginning with the default, beside the forms that choose one.
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

// openNamespace opens the records page, also for a namespace that is new.
func (s *Extensions) openNamespace(_ context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	p, err := parseNamespaceRef(r, parseNamespace...)
	o.Next = service.PageLink("records", p.values()...)
	return o, err
}
