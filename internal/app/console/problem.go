package console

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"

	"holdfast/internal/app/service"
)

// problem is an error for a signed-in operator. Its page has the navigation and advice.
type problem struct {
	x    *exchange
	path string // below Prefix
	err  error
}

func (p *problem) Error() string { return p.err.Error() }

func (p *problem) Unwrap() error { return p.err }

// writeError sends an error as a page. Without a session, or for HEAD, the page has only the message.
func (c *Console) writeError(w http.ResponseWriter, r *http.Request, err error) {
	code := status(err)
	if isUpdate(r) && code < http.StatusInternalServerError { // later updates fail, too
		w.Header().Set("HX-Refresh", "true")
	}
	p := c.start(titleOf(code))
	if failed, ok := errors.AsType[*problem](err); ok && r.Method != http.MethodHead {
		failed.x.sendProblem(p, failed.path, code, err)
	} else {
		p.open("main", "id", "main", "class", "alone")
		p.element("h1", titleOf(code))
		p.element("p", upper(Message(err))+".", "role", "alert")
		p.open("p")
		p.element("a", "To the overview", "href", Prefix)
		p.close("p", "main")
	}
	c.finish(p)
	send(w, code, "text/html; charset=utf-8", p.String())
}

// titleOf returns the page title for a status.
func titleOf(code int) string {
	if code == http.StatusNotFound {
		return "Not found"
	}
	return http.StatusText(code)
}

// sendProblem writes the error below the navigation, with advice and links. For a service that is off it names the
// setting.
func (x *exchange) sendProblem(p *page, path string, code int, err error) {
	section, at := x.near(path)
	p.element("a", "Skip to the contents", "href", "#main", "class", "skip")
	menu := x.menu()
	entry, item := x.position(menu, section, at)
	x.header(p, menu, entry, item)
	p.open("main", "id", "main", "tabindex", "-1")
	view := &service.View{}
	if at != nil {
		view.Parents = []service.Link{{Text: at.Title, To: at.Path}}
	}
	x.crumbs(p, section, entry, view)
	p.title(titleOf(code), "")
	p.notice(service.Wrong, upper(Message(err))+".", "role", "alert")
	text, links := x.advice(section, at, code)
	if name, _, _ := strings.Cut(path, "/"); errors.Is(err, errPage) && slices.Contains(x.Disabled, name) {
		text = "The service " + name + " is off. To turn it on, set " + name + ".enabled = true in the configuration, and restart the server."
	}
	p.element("p", text, "class", "text")
	p.open("ul", "class", "links")
	for _, l := range links {
		p.open("li")
		p.element("a", l.Text, "href", Prefix+l.To)
		p.close("li")
	}
	p.close("ul", "main")
}

// near returns the section that a path belongs to, by default the server's, and the listed page nearest to the path,
// or nil.
func (x *exchange) near(path string) (*Section, *service.Page) {
	section := &x.Sections[0]
	for i := range x.Sections {
		s := &x.Sections[i]
		if below, ok := strings.CutPrefix(path+"/", s.Name+"/"); ok && s.Name != "" {
			section, path = s, strings.TrimSuffix(below, "/")
			break
		}
	}
	if at := section.page(path); path != "" && at != nil {
		return section, listed(section, at, &service.View{})
	}
	noun, _, _ := strings.Cut(path, "/")
	if at := section.page(noun); noun != "" && at != nil && at.Listed {
		return section, at
	}
	return section, nil
}

// advice returns a sentence and links for an error page. Links are below Prefix. The last one leads to the overview.
func (x *exchange) advice(s *Section, at *service.Page, code int) (text string, links []service.Link) {
	to := func(text string, s *Section, path string) {
		l := service.Link{Text: text, To: strings.TrimPrefix(x.link(s, path), Prefix)}
		if !slices.ContainsFunc(links, func(other service.Link) bool { return other.To == l.To }) {
			links = append(links, l)
		}
	}
	back := cmp.Or(at, s.first())
	if back != nil {
		to(back.Title, s, back.Path)
	}
	server := &x.Sections[0]
	switch {
	case code == http.StatusNotFound:
		text = "It may be deleted or renamed, or the address is wrong. Choose it from a list, or search for it."
		to("Search", server, searchPath)
	case code == http.StatusServiceUnavailable:
		text = "Try again in a moment. The checks show the problem."
	case code >= http.StatusInternalServerError:
		text = "See the newest log lines."
		if server.page("log") != nil {
			to("Log", server, "log")
		}
	case x.r.Method == http.MethodPost:
		text = "Nothing was changed. Go back to the form, or to its page."
	default:
		text = "The address is incomplete or contains an invalid value. Choose from a list."
	}
	if code >= http.StatusInternalServerError && server.page("checks") != nil {
		to("Checks", server, "checks")
	}
	to("Overview", server, "")
	return text, links
}
