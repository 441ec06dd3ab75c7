// Package console makes console pages from operations: a list is a page, its noun's changes are row buttons and forms
// below, and a read is a page linked from the rows.
package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
)

// Pages returns a service's own pages and a page for each noun. An own page with a noun's path is shown below
// the noun's page; with service.Page.Instead it replaces that page and keeps its actions.
func Pages(own []service.Page, all []operate.Operation) []service.Page {
	pages := slices.Clone(own)
	find := func(path string) int {
		return slices.IndexFunc(pages, func(p service.Page) bool { return p.Path == path })
	}
	add := func(p service.Page) {
		if at := find(p.Path); at >= 0 && pages[at].Instead {
			pages[at].Actions = slices.Concat(pages[at].Actions, p.Actions)
		} else if at >= 0 {
			pages[at] = above(p, pages[at])
		} else {
			pages = append(pages, p)
		}
	}
	for i := range all {
		o := &all[i]
		switch at := find(o.Noun()); {
		case o.Kind == operate.Download:
			add(download(o))
		case o.Kind == operate.Read:
			add(newRead(o, all))
		case o.Kind == operate.List || at < 0:
			add(newPage(o, all))
		case at < len(own) && o.Kind.Changes() && first(operate.List, o.Noun(), all) == nil:
			extend(&pages[at], o, all)
		}
	}
	return pages
}

// page is a noun's page while it is made.
type page struct {
	noun    string
	list    *operate.Operation   // nil: there is no list
	changes []*operate.Operation // with the same noun
	offers  []*operate.Operation // with other nouns, see About.Offers
	all     []operate.Operation  // of the service

	downloads []*operate.Operation // shown as forms, because neither a list nor a read links to them
}

// newPage returns a noun's page; o is its list, or its first operation without a list.
func newPage(o *operate.Operation, all []operate.Operation) service.Page {
	p := &page{noun: o.Noun(), changes: changesOf(o.Noun(), all), all: all}
	if o.Kind == operate.List {
		p.list, p.offers = o, offered(o, all)
	}
	shown := service.Page{Path: o.Noun(), Title: o.Title, Listed: p.list == nil || len(o.Subjects()) == 0, Show: p.show, Access: operate.ForViewers}
	if p.list != nil {
		shown.Access = p.list.Access
	}
	for _, o := range p.changes {
		shown.Actions = append(shown.Actions, action(o, p.list))
	}
	if find := p.finds(); find != nil {
		shown.Actions = append(shown.Actions, findAction(find))
	}
	for _, o := range unlisted(o.Noun(), all) {
		p.downloads = append(p.downloads, o)
		shown.Actions = append(shown.Actions, downloadAction(o))
	}
	return shown
}

// changesOf returns the noun's changes, jobs and uploads.
func changesOf(noun string, all []operate.Operation) (changes []*operate.Operation) {
	for i := range all {
		if o := &all[i]; o.Kind.Changes() && o.Noun() == noun {
			changes = append(changes, o)
		}
	}
	return changes
}

// first returns the noun's first operation with this kind, or nil.
func first(kind operate.Kind, noun string, all []operate.Operation) *operate.Operation {
	i := slices.IndexFunc(all, func(o operate.Operation) bool { return o.Kind == kind && o.Noun() == noun })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// above returns a page with p's blocks above own's. Own's title and parents win, and so does an access for
// administrators.
func above(p, own service.Page) service.Page {
	show := p.Show
	p.Actions = append(p.Actions, own.Actions...)
	if own.Access != operate.ForViewers {
		p.Access = own.Access
	}
	p.Show = func(ctx context.Context, r *service.PageRequest) (*service.View, error) {
		view, err := show(ctx, r)
		if err != nil {
			return nil, err
		}
		more, err := own.Show(ctx, r)
		if err != nil {
			return nil, err
		}
		view.Title = cmp.Or(more.Title, view.Title)
		if more.Parents != nil {
			view.Parents = more.Parents
		}
		view.Blocks = append(view.Blocks, more.Blocks...)
		return view, nil
	}
	return p
}

// extend adds a change without a list, as a form, to a page that the service wrote itself.
func extend(p *service.Page, o *operate.Operation, all []operate.Operation) {
	show := p.Show
	p.Actions = append(slices.Clone(p.Actions), action(o, nil))
	p.Show = func(ctx context.Context, r *service.PageRequest) (*service.View, error) {
		view, err := show(ctx, r)
		if err != nil {
			return nil, err
		}
		view.Blocks = append(view.Blocks, form(o, nil, all))
		return view, nil
	}
}

// show makes the page for a request.
func (p *page) show(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	view := &service.View{}
	onRows, others := p.split()
	var at names
	rows := 0
	if p.list != nil {
		at = namesOf(p.list, r)
		t, err := p.table(ctx, r, at, onRows)
		if err != nil {
			return nil, err
		}
		p.showList(view, at, t)
		rows = len(t.Rows)
	} else if find := p.finds(); find != nil {
		view.Blocks = append(view.Blocks, p.findForm(find))
	}
	runs, running := p.runs()
	view.Blocks = append(view.Blocks, runs...)
	for _, o := range others {
		if o.Missing() != nil || o.OwnForm {
			continue
		}
		if p.list != nil && o.Kind == operate.Job && !o.Background && o.Subject() == nil && rows == 0 {
			continue // there are no rows for it; a background job may find some
		}
		if slices.Contains(running, o) {
			continue // one at a time
		}
		view.Blocks = append(view.Blocks, form(o, at, p.all))
	}
	for _, o := range p.downloads {
		view.Blocks = append(view.Blocks, downloadForm(o, p.all))
	}
	return view, nil
}

// showList adds the list to the page: filter, text, rows, missing settings, and links to files. at names the things
// that the list belongs to.
func (p *page) showList(view *service.View, at names, t *service.Table) {
	if of := p.list.Subject(); of != nil {
		view.Title, view.Parents = fmt.Sprintf("%s of %s %s", p.list.Title, of.Name, at[of.Name]), trail(p.list, p.all, at)
	}
	if find := p.finds(); find != nil {
		view.Blocks = append(view.Blocks, p.findForm(find))
	}
	if p.list.Text != "" {
		view.Blocks = append(view.Blocks, &service.Text{Body: p.list.Text})
	}
	if p.list.Live > 0 { // an update would overwrite a search being typed
		search := &service.Search{Fields: t.Search, Keep: t.Keep}
		t.Search = nil
		view.Blocks = append(view.Blocks, search, &service.Live{Every: p.list.Live, Blocks: []service.Block{t}})
	} else {
		view.Blocks = append(view.Blocks, t)
	}
	if setup := p.list.Missing(); setup != nil && len(t.Rows) == 0 {
		t.Empty = setup.Text
		view.Blocks = append(view.Blocks, &service.Text{Title: "Add to the configuration", Body: setup.Lines, Copy: true}, &service.Links{All: []service.Link{{Text: "Guide", To: service.GuideLink(setup.Guide)}}})
	}
	if links := downloads(p.list.Noun(), p.all, at); links != nil {
		view.Blocks = append(view.Blocks, &service.Links{All: links})
	}
}

// split divides the changes into buttons in rows and forms below the list. A form for a row is on the row's own page
// if there is one.
func (p *page) split() (onRows, others []*operate.Operation) {
	for _, o := range p.changes {
		switch isRow := p.list != nil && !o.NewRow && namesRow(p.list, o); {
		case isRow && isForm(o) && first(operate.Read, o.Noun(), p.all) != nil:
		case isRow:
			onRows = append(onRows, o)
		default:
			others = append(others, o)
		}
	}
	return append(onRows, p.offers...), others
}

// table reads the list and returns it with a column for each list below it, and a column for buttons.
func (p *page) table(ctx context.Context, r *service.PageRequest, at names, onRows []*operate.Operation) (*service.Table, error) {
	result, err := p.list.Run(ctx, values(p.list, r), nil)
	if err != nil {
		return nil, err
	}
	t := &service.Table{Empty: p.list.Empty}
	for _, s := range p.list.Subjects() {
		t.Keep = append(t.Keep, s.Name)
	}
	own, lists := "", listsBelow(p.list, p.all)
	if names := rowNames(p.list); len(names) > 0 {
		own = names[len(names)-1] // the other names say where the thing is
	}
	hasMain := slices.ContainsFunc(result.Columns, func(c operate.Column) bool { return c.Main })
	for _, c := range result.Columns {
		t.Columns = append(t.Columns, service.Column{Title: c.Title, Number: c.IsNumber(), Names: c.Main || !hasMain && c.Subject != "" && c.Subject == own})
	}
	p.filter(t, result.Columns, r)
	for _, list := range lists {
		t.Columns = append(t.Columns, service.Column{Title: list.Title})
	}
	if len(onRows) > 0 {
		t.Columns = append(t.Columns, service.Column{Title: "Action"})
	}
	for i := range result.Rows {
		t.Rows = append(t.Rows, p.cells(result.Columns, &result.Rows[i], at, lists, onRows))
	}
	if result.Next != nil {
		t.Next = fmt.Sprint(result.Next)
	}
	if limit := p.list.Input("limit"); limit != nil && !p.list.IsPaged() {
		t.Partial = strconv.Itoa(len(t.Rows)) == limit.Default
	}
	return t, nil
}

// cells returns a row's cells, with the links and buttons that the row allows.
func (p *page) cells(columns []operate.Column, row *operate.Row, at names, lists, changes []*operate.Operation) (all []service.Cell) {
	at = at.with(row.Subjects)
	for i, v := range row.Cells {
		c := cell(v)
		if named := columns[i].Subject; named != "" && v != "" && v != "-" {
			if p.list.Opens != "" {
				c.To = at.linkTo(p.list.Opens, rowNames(p.list))
			} else if read := readOf(p.list, named, p.all); read != nil && at.name(read) {
				c.To = at.link(read)
			}
		}
		all = append(all, c)
	}
	for _, list := range lists {
		all = append(all, service.Cell{Text: list.Title, To: at.link(list)})
	}
	if len(changes) == 0 {
		return all
	}
	return append(all, service.Cell{Forms: buttons(p.list, row, at, changes)})
}

// buttons returns a button for each change that the row offers. A change with another noun posts to that noun's page.
func buttons(list *operate.Operation, row *operate.Row, at names, changes []*operate.Operation) (all []service.Form) {
	for _, o := range changes {
		if row.Offers(o.Verb()) {
			f, s := button(o), o.Subject()
			f.Keep = at.of(o)
			if o.Noun() != list.Noun() {
				f.Page = o.Noun()
			}
			f.Label = o.LabelOf(s.Name + " " + at[s.Name])
			all = append(all, f)
		}
	}
	return all
}

// newRead returns a read's page: facts, texts, links, tables, and then the forms and buttons for the thing.
func newRead(o *operate.Operation, all []operate.Operation) service.Page {
	list := first(operate.List, o.Noun(), all)
	var onRow, forms []*operate.Operation
	for _, change := range changesOf(o.Noun(), all) {
		switch {
		case !namesRow(o, change), change.OwnForm:
		case isForm(change):
			forms = append(forms, change)
		case !change.NewRow:
			onRow = append(onRow, change)
		}
	}
	onRow = append(onRow, offered(o, all)...)
	return service.Page{Path: o.Path, Title: o.Title, Access: o.Access, Show: func(ctx context.Context, r *service.PageRequest) (*service.View, error) {
		result, err := o.Run(ctx, values(o, r), nil)
		if err != nil {
			return nil, err
		}
		row := &result.Rows[0]
		at := namesOf(o, r).with(row.Subjects)
		view := &service.View{Title: o.Title + " " + cmp.Or(row.Called, at[o.Subject().Name])}
		if list != nil {
			view.Parents = append(trail(list, all, at), service.Link{Text: list.Title, To: at.link(list)})
		}
		if row.Note != "" {
			view.Blocks = append(view.Blocks, &service.Notice{State: service.Warning, Text: row.Note})
		}
		titled := o.Subject().Name
		if row.Called != "" {
			titled = ""
		}
		view.Blocks = append(view.Blocks, facts(result, titled))
		for _, text := range row.Texts {
			if text.Body != "" {
				view.Blocks = append(view.Blocks, &service.Text{Title: text.Title, Body: text.Body, Copy: true})
			}
		}
		if links := below(o, all, at); links != nil {
			view.Blocks = append(view.Blocks, &service.Links{All: links})
		}
		view.Blocks = append(view.Blocks, tables(o, row, r, result.Next != nil || r.Value("after") != "", all)...)
		if result.Next != nil {
			next := service.Link{Text: "Next part", To: at.with(names{"after": fmt.Sprint(result.Next)}).linkTo(o.Path, append(rowNames(o), "after"))}
			view.Blocks = append(view.Blocks, &service.Links{All: []service.Link{next}})
		}
		for _, change := range forms {
			if row.Offers(change.Verb()) {
				f := form(change, at, all)
				f.Page = o.Noun()
				begin(f, row.Texts)
				view.Blocks = append(view.Blocks, f)
			}
		}
		for _, f := range onPage(o.Noun(), buttons(o, row, at, onRow)) {
			view.Blocks = append(view.Blocks, &f)
		}
		return view, nil
	}}
}

// begin fills a form's texts with the current ones: a field gets the text with the same title.
func begin(f *service.Form, texts []operate.Text) {
	for i := range f.Fields {
		for _, text := range texts {
			if f.Fields[i].Lines > 0 && f.Fields[i].Label == text.Title {
				f.Fields[i].Value = text.Body
			}
		}
	}
}

// facts returns a row's columns, without the subject title, which the page's title shows
// already; "" keeps all.
func facts(r *operate.Result, title string) *service.Facts {
	f := &service.Facts{}
	for i, c := range r.Columns {
		if title == "" || c.Subject != title {
			shown := cell(r.Rows[0].Cells[i])
			if shown.Text == "" {
				shown.Text = "-"
			}
			f.Rows = append(f.Rows, service.Fact{Name: c.Title, Cell: shown})
		}
	}
	return f
}

// button returns a form without fields.
func button(o *operate.Operation) service.Form {
	return service.Form{Action: o.Verb(), Submit: o.Label(), Ask: o.Question(), Danger: o.Danger}
}

// form returns a change's form. at names the things that the page is about, which become hidden values, not
// fields.
func form(o *operate.Operation, at names, all []operate.Operation) *service.Form {
	f := button(o)
	f.Title, f.Text, f.Confirm = o.Title, o.Text, o.Confirm
	if o.Retypes {
		f.Confirm = at[o.Subject().Name]
	}
	for _, in := range o.Inputs {
		if in.Local {
			continue
		}
		if value, ok := at[in.Name]; ok && in.Subject {
			if f.Keep == nil {
				f.Keep = map[string]string{}
			}
			f.Keep[in.Name] = value
			continue
		}
		field := service.Field{
			Name: in.Name, Label: in.Label(), Value: in.Default, Help: in.Doc, Optional: !in.Subject, Checkbox: in.IsBool(), Secret: in.Secret, Options: choices(&in), Lines: in.Lines,
		}
		if in.IsWords() {
			field.Help = strings.TrimSuffix(in.Doc, "; repeatable") + "; several with spaces between them"
		}
		if offer(&field, o, &in, all); field.Kind != "" {
			f.At = at
		}
		f.Fields = append(f.Fields, field)
	}
	if o.Kind == operate.Upload {
		f.Fields = append(f.Fields, service.Field{Name: "file", Label: "File", File: true, One: true})
	}
	if len(f.Fields) > 0 || f.Confirm != "" { // only a lone button asks
		f.Text, f.Ask = strings.TrimSpace(f.Text+" "+f.Ask), ""
	}
	return &f
}

// action returns the page's action for a change's form. list is the noun's list, or nil.
func action(o, list *operate.Operation) service.Action {
	a := service.Action{Name: o.Verb(), Uploads: o.Kind == operate.Upload, Memory: o.Memory, Recorded: true}
	a.Run = func(ctx context.Context, r *service.PageRequest) (service.Outcome, error) {
		if o.Background {
			_, err := o.Start(ctx, values(o, r))
			return service.Outcome{Notice: cmp.Or(o.Begun, "job started")}, err
		}
		done, err := run(ctx, o, r)
		if err != nil {
			return service.Outcome{}, err
		}
		for name, value := range done.Rows[0].Subjects {
			r.Values.Set(name, value)
		}
		if done.Notice == "" {
			view := outcome(o, done)
			if list != nil && done.HasSecret() {
				view.Blocks = append(view.Blocks, &service.Links{Primary: true, All: []service.Link{{Text: "Done", To: namesAfter(list, r).link(list)}}})
			}
			return service.Outcome{View: view}, nil
		}
		out := service.Outcome{Notice: strings.ReplaceAll(done.Notice, "\n", "; ")}
		if r.Values.Has("return-page") && !o.Stays { // the shown thing may be deleted
			out.Next = o.Noun()
			if list != nil {
				out.Next = namesAfter(list, r).link(list)
			}
		}
		if o.NewRow && list != nil && list.Opens != "" {
			out.Next = names(done.Rows[0].Subjects).linkTo(list.Opens, rowNames(list))
		}
		return out, nil
	}
	return a
}

// outcome returns the page that shows a change's result without a notice. A secret is shown here only.
func outcome(o *operate.Operation, r *operate.Result) *service.View {
	view := &service.View{Title: cmp.Or(o.Done, o.Title, o.Label())}
	if !r.HasSecret() {
		view.Blocks = []service.Block{facts(r, "")}
		return view
	}
	if r.Note != "" {
		view.Blocks = append(view.Blocks, &service.Notice{State: service.Warning, Text: r.Note})
	}
	for _, c := range r.Columns {
		if c.Secret != "" {
			view.Blocks = append(view.Blocks, &service.Notice{State: service.Warning, Text: c.Secret})
		}
	}
	for i, c := range r.Columns {
		text := cell(r.Rows[0].Cells[i]).Text
		view.Blocks = append(view.Blocks, &service.Text{Title: c.Title, Body: text, Copy: true})
		if c.QR != "" {
			view.Blocks = append(view.Blocks, &service.QR{Text: text, Label: c.QR})
		}
	}
	for _, s := range r.Rows[0].Snippets {
		if s.Title == "" {
			view.Blocks = slices.Insert(view.Blocks, 0, service.Block(&service.Text{Body: s.Body}))
		} else {
			view.Blocks = append(view.Blocks, &service.Text{Title: s.Title, Body: s.Body, Copy: true, Folded: true})
		}
	}
	return view
}

// values returns a request's input values by name. The console decides about limit, so a request cannot set it.
func values(o *operate.Operation, r *service.PageRequest) map[string]string {
	all := map[string]string{}
	for _, in := range o.Inputs {
		if in.Name == "limit" || in.Local {
			continue
		}
		switch all[in.Name] = r.Value(in.Name); {
		case in.IsBool() && all[in.Name] == "yes":
			all[in.Name] = "true"
		case in.IsWords():
			all[in.Name] = strings.Join(r.Values[in.Name], " ")
		}
	}
	return all
}
