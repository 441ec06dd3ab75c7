package console

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
)

// htmxConfig makes htmx comply with the policy (no inline style, no code in attributes) and disables its history
// storage.
const htmxConfig = `{"includeIndicatorStyles":false,"allowEval":false,"allowScriptTags":false,"selfRequestsOnly":true,"historyEnabled":false,"historyCacheSize":0}`

// start begins a page up to <body>. blocks decide which scripts the page loads.
func (c *Console) start(title string, blocks ...service.Block) *page {
	p := &page{}
	p.WriteString("<!doctype html>\n")
	p.open("html", "lang", "en")
	p.open("head")
	p.open("meta", "charset", "utf-8")
	p.open("meta", "name", "viewport", "content", "width=device-width, initial-scale=1")
	p.open("meta", "name", "color-scheme", "content", "light dark")
	p.element("title", title+" · Holdfast")
	p.element("script", "", "src", assetLink("theme.js")) // before the first paint
	p.open("link", "rel", "preload", "as", "font", "type", "font/woff2", "crossorigin?", "yes", "href", assetLink("lib/inter.woff2"))
	p.open("link", "rel", "stylesheet", "href", assetLink("console.css"))
	p.open("link", "rel", "icon", "href", assetLink("icon.svg"))
	script := func(name string) { p.element("script", "", "src", assetLink(name), "defer?", "yes") }
	p.open("meta", "name", "htmx-config", "content", htmxConfig)
	script("lib/htmx.min.js")
	script("console.js")
	script("search.js")
	if has[*service.Form](blocks) {
		script("upload.js")
	}
	if has[*service.Chart](blocks) || has[*service.Charts](blocks) {
		p.open("link", "rel", "stylesheet", "href", assetLink("lib/uPlot.min.css"))
		script("lib/uPlot.min.js")
		script("charts.js")
	}
	p.close("head")
	p.open("body")
	return p
}

// has reports whether blocks of a type are on the page, also inside service.Live.
func has[T service.Block](blocks []service.Block) bool {
	return slices.ContainsFunc(blocks, func(b service.Block) bool {
		if _, ok := b.(T); ok {
			return true
		}
		live, ok := b.(*service.Live)
		return ok && has[T](live.Blocks)
	})
}

// finish ends the page that start began.
func (c *Console) finish(p *page) { p.close("body", "html") }

// sendSignIn shows the sign-in page. problem is a sentence, or ""; next is the page to show afterwards, below Prefix.
func (x *exchange) sendSignIn(status int, problem, next string) error {
	p := x.start("Sign in")
	p.open("main", "id", "main", "class", "alone")
	p.mark()
	p.element("h1", "Holdfast console")
	if problem != "" {
		p.notice(service.Wrong, problem, "role", "alert")
	}
	p.open("form", "method", "post", "action", Prefix+"sign-in")
	p.open("input", "type", "hidden", "name", "next", "value", next)
	p.element("label", "Admin token", "for", "token")
	p.open("input", "id", "token", "name", "token", "type", "password", "autocomplete", "current-password", "required?", "yes", "autofocus?", "yes", "aria-describedby", "token-help")
	p.open("p", "id", "token-help", "class", "help")
	p.text("The setting ")
	p.element("code", "server.admin_token")
	p.text(", or, if it is not set, ")
	p.element("code", "admin_token")
	p.text(" in the secrets file of the data folder. With ")
	p.element("code", "server.viewer_token")
	p.text(" you may read but not change anything.")
	p.close("p")
	p.element("button", "Sign in", "type", "submit")
	p.close("form", "main")
	x.finish(p)
	send(x.w, status, "text/html; charset=utf-8", p.String())
	return nil
}

// shown is a page with everything that its view depends on.
type shown struct {
	section *Section
	page    *service.Page
	view    *service.View
	values  url.Values // the page's query values, which links and forms keep
	failed  *failure   // an action's result, shown with its form; nil: none

	isOutcome bool // view is an action's, and has its own title
}

// sendView writes a whole page. An update by htmx gets only the page's service.Live part; the rest is rendered and
// dropped.
func (x *exchange) sendView(status int, s shown) error {
	section, view, failed := s.section, s.view, s.failed
	title := cmp.Or(view.Title, s.page.Title)
	p := x.start(title+" · "+section.Title, view.Blocks...)
	p.element("a", "Skip to the contents", "href", "#main", "class", "skip")
	var frame *service.Frame
	if section.Frame != nil && !s.isOutcome {
		frame = section.Frame(s.page.Path, s.values)
	}
	if frame != nil && frame.Parents != nil {
		framed := *view
		framed.Parents = frame.Parents
		view = &framed
	}
	menu := x.menu()
	entry, item := x.position(menu, section, listed(section, s.page, view))
	x.header(p, menu, entry, item)
	p.open("main", "id", "main", "tabindex", "-1")
	x.crumbs(p, section, entry, view)
	r := renderer{page: p, x: x, section: section, at: s.page, values: s.values, failed: failed, frame: frame}
	p.open("div", "class", "head")
	icon := ""
	if frame != nil {
		title, icon = frame.Title, frame.Icon
	}
	p.title(title, icon)
	r.starts(view.Blocks)
	p.close("div")
	x.tabs(p, section, frame, item, s.page)
	if x.session.notice != "" {
		p.notice(service.OK, upper(x.session.notice)+".", "role", "status")
	}
	if failed != nil && failed.err != nil {
		p.notice(service.Wrong, upper(Message(failed.err))+".", "role", "alert")
	} else if failed != nil && failed.notice != "" {
		p.notice(service.OK, upper(failed.notice)+".", "role", "status")
	}
	for _, b := range view.Blocks {
		r.block(b)
	}
	p.close("main")
	x.finish(p)
	if isUpdate(x.r) {
		x.sendPart(r.part)
		return nil
	}
	send(x.w, status, "text/html; charset=utf-8", p.String())
	return nil
}

// part is a page's service.Live block as HTML and its digest.
type part struct{ body, version string }

// versionHeader carries the part version that the browser shows.
const versionHeader = "X-Part-Version"

// sendPart answers an update: nothing if the part did not change, so that a selection and the focus stay; a page
// reload if the view has no live part any more.
func (x *exchange) sendPart(p part) {
	switch p.version {
	case "":
		x.w.Header().Set("HX-Refresh", "true")
		x.w.WriteHeader(http.StatusNoContent)
	case x.r.Header.Get(versionHeader):
		x.w.WriteHeader(http.StatusNoContent)
	default:
		send(x.w, http.StatusOK, "text/html; charset=utf-8", p.body)
	}
}

// OwnPages returns the console's own pages, which the caller adds to the server's section.
func (c *Console) OwnPages() []service.Page {
	return []service.Page{
		{Path: searchPath, Title: "Search", Access: operate.ForViewers, Show: c.showSearch},
		{Path: "sessions", Title: "Sessions", Listed: true, Access: operate.ForViewers, Show: c.showSessions, Actions: []service.Action{
			{Name: "end", Logged: []string{"session"}, Run: c.endSession},
			{Name: "end-all", Run: c.endAll},
		}},
	}
}

// showSessions shows the console sessions that have not ended, newest first.
func (c *Console) showSessions(_ context.Context, _ *service.PageRequest) (*service.View, error) {
	t := &service.Table{Columns: []service.Column{{Title: "Session", Number: true}, {Title: "Role"}, {Title: "Address"}, {Title: "Signed in"}, {Title: "Last used"}, {Title: "Action"}}}
	for _, s := range c.sessions.list() {
		id := strconv.Itoa(s.id)
		t.Rows = append(t.Rows, []service.Cell{
			service.TextCell(id), service.TextCell(string(s.role)), service.TextCell(s.address), service.TimeCell(s.began), service.TimeCell(s.used),
			{Forms: []service.Form{{Action: "end", Keep: map[string]string{"session": id}, Submit: "End", Label: "End session " + id}}},
		})
	}
	return &service.View{Blocks: []service.Block{
		&service.Text{Body: "A session ends after 30 minutes without a request, after 12 hours, and when the server stops."}, t,
		&service.Form{Action: "end-all", Submit: "End all sessions", Danger: true},
	}}, nil
}

// endSession may end the operator's own session: the next request leads to the sign-in.
func (c *Console) endSession(_ context.Context, r *service.PageRequest) (service.Outcome, error) {
	n := c.sessions.end(func(s *session) bool { return strconv.Itoa(s.id) == r.Value("session") })
	if n == 0 {
		return service.Outcome{}, errcode.New(errcode.NotFound, "the session has ended already")
	}
	return service.Outcome{Notice: "the session has ended"}, nil
}

// endAll ends all sessions, including the operator's own.
func (c *Console) endAll(context.Context, *service.PageRequest) (service.Outcome, error) {
	n := c.sessions.end(func(*session) bool { return true })
	return service.Outcome{Notice: "ended " + service.Count(int64(n), "session")}, nil
}
