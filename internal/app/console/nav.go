package console

import (
	"cmp"
	"slices"
	"strings"

	"holdfast/internal/app/service"
)

// header writes the navigation, the search and the sign-out. current and at are the lines to mark, or nil.
func (x *exchange) header(p *page, menu []entry, current *entry, at *item) {
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
	x.navigation(p, menu, current, at)
	p.close("nav")
	p.element("a", "Guides", "href", service.GuidePrefix, "class", "guides")
	p.open("div", "class", "theme", "hidden?", "yes") // shown by the script
	p.element("label", "Colors", "for", "theme")
	p.open("select", "id", "theme")
	for _, theme := range []string{"system", "light", "dark"} {
		p.element("option", upper(theme), "value", theme)
	}
	p.close("select", "div")
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

// entry is a top-level line of the navigation, with the lines below it.
type entry struct {
	title, icon string
	items       []item
}

// item is a line below an entry. Several pages are tabs of one line.
type item struct {
	title string
	pages []place
}

// place is a page with its section.
type place struct {
	section *Section
	page    *service.Page
	tab     string // the text of its tab
}

// own are the entries that belong to no service, with their icons: those before the services, and those after them.
var own = [2][]entry{
	{{title: service.MenuOverview, icon: "server"}},
	{{title: service.MenuActivity, icon: "activity"}, {title: service.MenuProtection, icon: "shield"}, {title: service.MenuSettings, icon: "settings"}},
}

// menu returns the navigation. Entries without pages, e.g. of services that are off, are left out.
func (c *Console) menu() []entry {
	var all []entry
	all = append(all, own[0]...)
	for i := range c.Sections {
		s := &c.Sections[i]
		if s.Name != "" && !slices.ContainsFunc(all, func(e entry) bool { return e.title == s.Title }) {
			all = append(all, entry{title: s.Title, icon: s.Icon})
		}
	}
	all = append(all, own[1]...)
	for _, later := range []bool{false, true} {
		for i := range c.Sections {
			s := &c.Sections[i]
			for _, m := range s.items() {
				at := slices.IndexFunc(all, func(e entry) bool { return e.title == cmp.Or(m.Under, s.Title) })
				if at >= 0 && m.Later == later {
					all[at].add(s, m)
				}
			}
		}
	}
	return slices.DeleteFunc(all, func(e entry) bool { return len(e.items) == 0 })
}

// items returns the section's menu, by default an item for each listed page.
func (s *Section) items() []service.MenuItem {
	if s.Menu != nil {
		return s.Menu
	}
	var all []service.MenuItem
	for i := range s.Pages {
		if pg := &s.Pages[i]; pg.Listed {
			all = append(all, service.MenuItem{Pages: []string{pg.Path}})
		}
	}
	return all
}

// add adds a section's item, or its pages to another section's item with the same title.
func (e *entry) add(s *Section, m service.MenuItem) {
	var pages []place
	for _, path := range m.Pages {
		if pg := s.page(path); pg != nil {
			pages = append(pages, place{s, pg, pg.Title})
		}
	}
	if len(pages) == 0 {
		return
	}
	title := cmp.Or(m.Title, pages[0].page.Title)
	at := slices.IndexFunc(e.items, func(i item) bool { return i.title == title })
	if at < 0 {
		e.items = append(e.items, item{title, pages})
		return
	}
	e.items[at].pages = append(e.items[at].pages, pages...)
	for i := range e.items[at].pages {
		if pg := &e.items[at].pages[i]; pg.page.Title == title {
			pg.tab = pg.section.Title
		}
	}
}

// holds reports whether the item leads to a page, which may be nil.
func (i *item) holds(pg *service.Page) bool {
	return slices.ContainsFunc(i.pages, func(p place) bool { return p.page == pg })
}

// position finds a page's lines in the navigation. A page that is in no line is below the section's own entry. Both
// are nil if the menu does not contain the section.
func (c *Console) position(menu []entry, s *Section, pg *service.Page) (*entry, *item) {
	for i := range menu {
		for j := range menu[i].items {
			if menu[i].items[j].holds(pg) {
				return &menu[i], &menu[i].items[j]
			}
		}
	}
	for i := range menu {
		if s != nil && menu[i].title == s.Title {
			return &menu[i], nil
		}
	}
	return nil, nil
}

// navigation writes the menu. Only the current entry is open. An entry with a single page is a link.
func (x *exchange) navigation(p *page, menu []entry, current *entry, at *item) {
	for i := range menu {
		e := &menu[i]
		if len(e.items) == 1 && e.items[0].title == e.title {
			attrs := []string{"class", "entry", "href", e.items[0].pages[0].link(x.Console)}
			if e == current {
				attrs = append(attrs, "aria-current", "page")
			}
			p.open("a", attrs...)
			p.icon(e.icon)
			p.text(e.title)
			p.close("a")
			continue
		}
		open := ""
		if e == current {
			open = "yes"
		}
		p.open("details", "open?", open)
		p.open("summary")
		p.icon(e.icon)
		p.text(e.title)
		p.close("summary")
		p.open("ul")
		for j := range e.items {
			attrs := []string{"href", e.items[j].pages[0].link(x.Console)}
			if &e.items[j] == at {
				attrs = append(attrs, "aria-current", "page")
			}
			p.open("li")
			p.element("a", e.items[j].title, attrs...)
			p.close("li")
		}
		p.close("ul", "details")
	}
}

func (p place) link(c *Console) string { return c.link(p.section, p.page.Path) }

// FirstPage returns the first page of a service's entry in the navigation, as a link within the server's section, or ""
// if the service has none or is off.
func (c *Console) FirstPage(section string) string {
	at := slices.IndexFunc(c.Sections, func(s Section) bool { return s.Name == section })
	if at < 0 {
		return ""
	}
	if e, _ := c.position(c.menu(), &c.Sections[at], nil); e != nil {
		return strings.TrimPrefix(e.items[0].pages[0].link(c), Prefix)
	}
	return ""
}

// first returns the first page of a section's own entry, or nil.
func (s *Section) first() *service.Page {
	for _, m := range s.items() {
		for _, path := range m.Pages {
			if pg := s.page(path); pg != nil && m.Under == "" {
				return pg
			}
		}
	}
	return nil
}

// listed returns the page to mark in the navigation: the page itself, its nearest parent, or the page of its noun
// (accounts for accounts/show). nil if none is listed.
func listed(s *Section, at *service.Page, view *service.View) *service.Page {
	if at.Listed {
		return at
	}
	for _, l := range slices.Backward(view.Parents) {
		if pg := s.page(pathOf(l.To)); pg != nil && pg.Listed {
			return pg
		}
	}
	noun, _, _ := strings.Cut(at.Path, "/")
	if pg := s.page(noun); pg != nil && pg.Listed {
		return pg
	}
	return nil
}

// pathOf returns a link's page without its values.
func pathOf(to string) string {
	path, _, _ := strings.Cut(to, "?")
	return path
}

// crumbs writes the breadcrumbs: the entry in the navigation, then the view's parents. The entry's first page is not
// repeated if it is also the outermost parent.
func (x *exchange) crumbs(p *page, s *Section, in *entry, view *service.View) {
	p.open("nav", "aria-label", "Breadcrumb", "class", "crumbs")
	p.open("ol")
	p.open("li")
	first := ""
	if in != nil {
		first = in.items[0].pages[0].link(x.Console)
		p.element("a", in.title, "href", first)
	} else {
		p.text(s.Title)
	}
	p.close("li")
	for i, l := range view.Parents {
		if i == 0 && x.link(s, l.To) == first {
			continue
		}
		p.open("li")
		p.element("a", short(l.Text), "href", x.link(s, l.To))
		p.close("li")
	}
	p.close("ol", "nav")
}

// tabs writes links to the pages beside this one: those about the same thing, or else those in the same line of the
// navigation.
func (x *exchange) tabs(p *page, s *Section, f *service.Frame, in *item, at *service.Page) {
	var all []service.Link // To is the whole path
	current, label := -1, "Pages"
	switch {
	case f != nil:
		label = "Pages of " + f.Title
		for i, l := range f.Tabs {
			if pathOf(l.To) == at.Path {
				current = i
			}
			all = append(all, service.Link{Text: l.Text, To: x.link(s, l.To)})
		}
	case in != nil && in.holds(at):
		label = "Pages of " + in.title
		for i, pl := range in.pages {
			if pl.page == at {
				current = i
			}
			all = append(all, service.Link{Text: pl.tab, To: pl.link(x.Console)})
		}
	}
	if len(all) < 2 {
		return
	}
	p.open("nav", "aria-label", label, "class", "tabs")
	for i, l := range all {
		attrs := []string{"href", l.To}
		if i == current {
			attrs = append(attrs, "aria-current", "page")
		}
		p.element("a", l.Text, attrs...)
	}
	p.close("nav")
}

// title writes the heading, with an icon unless it is "". Long IDs in it get a narrow font.
func (p *page) title(title, icon string) {
	p.open("h1")
	if icon != "" {
		p.icon(icon)
		p.text(" ")
	}
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
