package console

import (
	"slices"
	"strings"

	"holdfast/internal/app/service"
)

// header writes the navigation, the search and the sign-out. current is the page's section, at the page to mark, or
// nil.
func (x *exchange) header(p *page, current *Section, at *service.Page) {
	p.open("header", "class", "side")
	p.open("div", "class", "brand")
	p.open("a", "href", Prefix, "class", "home")
	p.mark()
	p.text("Holdfast")
	p.close("a")
	p.element("span", x.Version, "class", "version")
	p.close("div")
	p.open("details", "class", "menu")
	p.open("summary")
	p.icon("menu")
	p.text("Menu")
	p.close("summary", "details")
	p.open("div", "class", "drawer")
	p.searchForm("")
	p.open("nav", "aria-label", "Console")
	for i := range x.Sections {
		x.navigation(p, &x.Sections[i], current, at)
	}
	p.close("nav")
	p.element("a", "Guides", "href", service.GuidePrefix, "class", "guides")
	p.open("form", "method", "post", "action", Prefix+"sign-out", "class", "who")
	p.open("input", "type", "hidden", "name", "csrf", "value", x.session.csrf)
	if x.session.role == viewer {
		p.element("span", "read only", "class", "state warn")
	}
	p.element("button", "Sign out", "type", "submit", "class", "plain")
	p.close("form", "div", "header")
}

// searchForm writes the search field with suggestions. Without JavaScript it leads to the search page.
func (p *page) searchForm(value string) {
	p.open("form", "method", "get", "action", Prefix+searchPath, "class", "find", "role", "search")
	p.icon("search")
	p.open("input", "type", "search", "name", "q", "value", value, "aria-label", "Search", "placeholder", "Search", "autocomplete", "off", "spellcheck", "false", "aria-keyshortcuts", "/",
		"role", "combobox", "aria-expanded", "false", "aria-autocomplete", "list", "aria-controls", "suggestions",
		"hx-get", Prefix+searchPath, "hx-trigger", "input changed delay:200ms", "hx-target", "#found", "hx-sync", "this:replace")
	p.element("kbd", "/", "aria-hidden", "true")
	p.open("div", "id", "found", "class", "found", "hidden?", "yes")
	p.close("div")
	p.element("p", "", "class", "skip", "role", "status")
	p.close("form")
}

// navigation writes a section with its pages. Only the current section is open; pages that are not in
// Console.Everyday are behind More. A section without listed pages is left out.
func (x *exchange) navigation(p *page, s, current *Section, at *service.Page) {
	if s.first() == nil {
		return
	}
	open := ""
	if s == current {
		open = "yes"
	}
	p.open("details", "open?", open)
	p.open("summary")
	p.icon(s.Icon)
	p.text(s.Title)
	p.close("summary")
	everyday, others := s.menu()
	x.pageLinks(p, s, everyday, at)
	if len(others) > 0 {
		open := ""
		if s == current && slices.Contains(others, at) {
			open = "yes"
		}
		p.open("details", "open?", open, "class", "others")
		p.element("summary", "More", "aria-label", "More pages of "+s.Title)
		x.pageLinks(p, s, others, at)
		p.close("details")
	}
	p.close("details")
}

// pageLinks marks the page at as the current one.
func (x *exchange) pageLinks(p *page, s *Section, pages []*service.Page, at *service.Page) {
	p.open("ul")
	for _, pg := range pages {
		attrs := []string{"href", x.link(s, pg.Path)}
		if pg == at {
			attrs = append(attrs, "aria-current", "page")
		}
		p.open("li")
		p.element("a", pg.Title, attrs...)
		p.close("li")
	}
	p.close("ul")
}

// menu returns the listed pages in navigation order. Without Console.Everyday all are everyday.
func (s *Section) menu() (everyday, others []*service.Page) {
	for _, path := range s.Everyday {
		if pg := s.page(path); pg != nil && pg.Listed {
			everyday = append(everyday, pg)
		}
	}
	for i := range s.Pages {
		if pg := &s.Pages[i]; pg.Listed && !slices.Contains(everyday, pg) {
			others = append(others, pg)
		}
	}
	if len(everyday) == 0 {
		return others, nil
	}
	return everyday, others
}

// FirstPage returns a service's first page in the navigation, as a link within the server's section, or "" if the
// service has none or is off.
func (c *Console) FirstPage(section string) string {
	at := slices.IndexFunc(c.Sections, func(s Section) bool { return s.Name == section })
	if at < 0 {
		return ""
	}
	s := &c.Sections[at]
	first := s.first()
	if first == nil {
		return ""
	}
	return strings.TrimPrefix(c.link(s, first.Path), Prefix)
}

// first returns the page that a section's title leads to, or nil.
func (s *Section) first() *service.Page {
	everyday, _ := s.menu()
	if len(everyday) == 0 {
		return nil
	}
	return everyday[0]
}

// listed returns the page to mark in the navigation: the page itself, its nearest parent, or the page of its noun
// (accounts for accounts/show). nil if none is listed.
func listed(s *Section, at *service.Page, view *service.View) *service.Page {
	if at.Listed {
		return at
	}
	for _, l := range slices.Backward(view.Parents) {
		path, _, _ := strings.Cut(l.To, "?")
		if pg := s.page(path); pg != nil && pg.Listed {
			return pg
		}
	}
	noun, _, _ := strings.Cut(at.Path, "/")
	if pg := s.page(noun); pg != nil && pg.Listed {
		return pg
	}
	return nil
}

// crumbs writes the breadcrumbs. The section's first page is not repeated if it is also the outermost parent.
func (x *exchange) crumbs(p *page, s *Section, view *service.View) {
	p.open("nav", "aria-label", "Breadcrumb", "class", "crumbs")
	p.open("ol")
	p.open("li")
	first := s.first()
	if first != nil {
		p.element("a", s.Title, "href", x.link(s, first.Path))
	} else {
		p.text(s.Title)
	}
	p.close("li")
	for i, l := range view.Parents {
		if i == 0 && first != nil && l.To == first.Path {
			continue
		}
		p.open("li")
		p.element("a", short(l.Text), "href", x.link(s, l.To))
		p.close("li")
	}
	p.close("ol", "nav")
}

// title writes the heading. Long IDs in it get a narrow font.
func (p *page) title(title string) {
	p.open("h1")
	for i, word := range strings.Split(title, " ") {
		if i > 0 {
			p.text(" ")
		}
		if service.IsLongID(word) {
			p.element("code", word)
		} else {
			p.text(word)
		}
	}
	p.close("h1")
}

// short shortens a long ID, for places where the full one is a click away.
func short(s string) string {
	const shown = 8
	if !service.IsLongID(s) {
		return s
	}
	return s[:shown] + "…"
}
