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

func (c *Console) start(title string, blocks ...service.Block) *page {
	p := &page{}
	p.WriteString("<!doctype html>\n")
	p.open("html", "lang", "en")
	p.open("head")
	p.open("meta", "charset", "utf-8")
	p.open("meta", "name", "viewport", "content", "width=device-width, initial-scale=1")
	p.open("meta", "name", "color-scheme", "content", "light dark")
	p.element("title", title+" · Holdfast")
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

func has[T service.Block](blocks []service.Block) bool {
	return slices.ContainsFunc(blocks, func(b service.Block) bool {
		if _, ok := b.(T); ok {
			return true
		}
		live, ok := b.(*service.Live)
		return ok && has[T](live.Blocks)
	})
}

func (c *Console) finish(p *page) { p.close("body", "html") }

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

type shown struct {
	section *Section
	page    *service.Page
	view    *service.View
	values  url.Values
	failed  *failure
}

func (x *exchange) sendView(status int, s shown) error {
	section, view, failed := s.section, s.view, s.failed
	title := cmp.Or(view.Title, s.page.Title)
	p := x.start(title+" · "+section.Title, view.Blocks...)
	p.element("a", "Skip to the contents", "href", "#main", "class", "skip")
	x.header(p, section, listed(section, s.page, view))
	p.open("main", "id", "main", "tabindex", "-1")
	x.crumbs(p, section, view)
	r := renderer{page: p, x: x, section: section, at: s.page, values: s.values, failed: failed}
	p.open("div", "class", "head")
	p.title(title)
	r.starts(view.Blocks)
	p.close("div")
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

type part struct{ body, version string }

const versionHeader = "X-Part-Version"

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

func (c *Console) OwnPages() []service.Page {
	return []service.Page{
		{Path: searchPath, Title: "Search", Access: operate.ForViewers, Show: c.showSearch},
		{Path: "sessions", Title: "Sessions", Listed: true, Access: operate.ForViewers, Show: c.showSessions, Actions: []service.Action{
			{Name: "end", Logged: []string{"session"}, Run: c.endSession},
			{Name: "end-all", Run: c.endAll},
		}},
	}
}

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

func (c *Console) endSession(_ context.Context, r *service.PageRequest) (service.Outcome, error) {
	n := c.sessions.end(func(s *session) bool { return strconv.Itoa(s.id) == r.Value("session") })
	if n == 0 {
		return service.Outcome{}, errcode.New(errcode.NotFound, "the session has ended already")
	}
	return service.Outcome{Notice: "the session has ended"}, nil
}

func (c *Console) endAll(context.Context, *service.PageRequest) (service.Outcome, error) {
	n := c.sessions.end(func(*session) bool { return true })
	return service.Outcome{Notice: "ended " + service.Count(int64(n), "session")}, nil
}
