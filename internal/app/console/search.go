package console

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"holdfast/internal/app/service"
)

const searchPath = "search" // a page of the server's section

const (
	searchTime   = 2 * time.Second // for all services together; one that is slower has no hits
	longestQuery = 1024            // bytes: the longest object name
	suggestions  = 8               // while typing, on all kinds together
)

// results are a section's hits. Other sections' hits are shown even if one fails.
type results struct {
	hits []service.Hit
	err  error
}

// showSearch shows all hits, or without hits the queries that the services understand.
func (c *Console) showSearch(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	query := strings.TrimSpace(r.Value("q"))
	view := &service.View{}
	switch {
	case query == "":
		view.Blocks = append(view.Blocks, c.searchForms())
		return view, nil
	case len(query) > longestQuery:
		view.Blocks = append(view.Blocks, &service.Notice{State: service.Warning, Text: "The query is too long: names have at most 1024 bytes."})
		return view, nil
	}
	view.Title = "Search: " + query
	t := &service.Table{Search: []service.Field{{Name: "q", Label: "Search"}}, Columns: []service.Column{{Title: "Name"}, {Title: "Kind"}, {Title: "Section"}}, Empty: "Nothing found. The search matches the beginning of names."}
	for i, results := range c.search(ctx, query) {
		s := &c.Sections[i]
		if results.err != nil {
			c.Log.Warn("search failed", "service", s.Name, "error", results.err)
			view.Blocks = append(view.Blocks, &service.Notice{State: service.Warning, Text: s.Title + " could not be searched: see its state on the overview."})
		}
		t.Partial = t.Partial || len(results.hits) >= service.MaxHits
		for _, h := range append(pagesNamed(s, query), results.hits...) {
			t.Rows = append(t.Rows, []service.Cell{{Text: h.Text, To: strings.TrimPrefix(c.link(s, h.To), Prefix), ID: service.IsLongID(h.Text)}, service.TextCell(h.Kind), service.TextCell(s.Title)})
		}
	}
	view.Blocks = append(view.Blocks, t)
	if len(t.Rows) == 0 {
		view.Blocks = append(view.Blocks, c.searchForms())
	}
	return view, nil
}

// searchForms lists the queries that the services understand (Console.Finds).
func (c *Console) searchForms() *service.Facts {
	f := &service.Facts{Title: "What you can search for", Rows: []service.Fact{{Name: "Pages by a word", Cell: service.TextCell("quota")}}}
	for i := range c.Sections {
		for _, form := range c.Sections[i].Finds {
			f.Rows = append(f.Rows, service.Fact{Name: form.What, Cell: service.TextCell(form.Example)})
		}
	}
	return f
}

// search asks all services at once. The results are as in c.Sections.
func (c *Console) search(ctx context.Context, query string) []results {
	ctx, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	all := make([]results, len(c.Sections))
	var wait sync.WaitGroup
	for i := range c.Sections {
		if find := c.Sections[i].Search; find != nil {
			wait.Go(func() { all[i].hits, all[i].err = find(ctx, query) })
		}
	}
	wait.Wait()
	return all
}

// pagesNamed returns the section's listed pages whose title, or section title, matches.
func pagesNamed(s *Section, query string) (hits []service.Hit) {
	for i := range s.Pages {
		if pg := &s.Pages[i]; pg.Listed && service.HasWords(s.Title+" "+pg.Title, query) {
			hits = append(hits, service.Hit{Kind: "Page", Text: pg.Title, To: pg.Path})
		}
	}
	return hits
}

// group is a heading in the suggestions with its links.
type group struct {
	title string
	hits  []service.Link
}

// suggest answers the search field while the operator types. If a service fails, its hits are missing.
func (x *exchange) suggest() error {
	query := strings.TrimSpace(x.r.URL.Query().Get("q"))
	p := &page{}
	if query != "" && len(query) <= longestQuery {
		p.suggestions(x.groups(x.r.Context(), query))
	}
	send(x.w, http.StatusOK, "text/html; charset=utf-8", p.String())
	return nil
}

// groups returns the suggestions by kind and section, pages first.
func (c *Console) groups(ctx context.Context, query string) []group {
	pages, others := group{title: "Pages"}, []group(nil)
	for i, results := range c.search(ctx, query) {
		s := &c.Sections[i]
		for _, h := range pagesNamed(s, query) {
			pages.hits = append(pages.hits, service.Link{Text: s.Title + " › " + h.Text, To: c.link(s, h.To)})
		}
		for _, h := range results.hits {
			title := h.Kind + " · " + s.Title
			if n := len(others); n == 0 || others[n-1].title != title {
				others = append(others, group{title: title})
			}
			last := &others[len(others)-1]
			last.hits = append(last.hits, service.Link{Text: h.Text, To: c.link(s, h.To)})
		}
	}
	all := slices.DeleteFunc(append([]group{pages}, others...), func(g group) bool { return len(g.hits) == 0 })
	return firstOfEach(all, suggestions)
}

// firstOfEach keeps n links in total, taking one from each group in turn, so that a kind with many hits does not hide
// the others.
func firstOfEach(all []group, n int) []group {
	taken := make([]int, len(all))
	for row := 0; n > 0 && slices.ContainsFunc(all, func(g group) bool { return len(g.hits) > row }); row++ {
		for i := range all {
			if len(all[i].hits) > row && n > 0 {
				taken[i]++
				n--
			}
		}
	}
	for i := range all {
		all[i].hits = all[i].hits[:taken[i]]
	}
	return slices.DeleteFunc(all, func(g group) bool { return len(g.hits) == 0 })
}

// suggestions writes links in the roles of a list box, for search.js, and their number for screen readers.
func (p *page) suggestions(all []group) {
	n := 0
	if len(all) > 0 {
		p.open("div", "role", "listbox", "id", "suggestions", "aria-label", "Suggestions")
		for i, g := range all {
			title := "suggestions-" + strconv.Itoa(i)
			p.open("div", "role", "group", "aria-labelledby", title)
			p.element("span", g.title, "id", title, "role", "presentation")
			for _, h := range g.hits {
				n++
				p.open("a", "role", "option", "id", "suggestion-"+strconv.Itoa(n), "aria-selected", "false", "tabindex", "-1", "href", h.To)
				p.name(h.Text)
				p.close("a")
			}
			p.close("div")
		}
		p.close("div")
	}
	summary := "Nothing found"
	if n > 0 {
		summary = service.Count(int64(n), "suggestion")
	}
	p.element("p", summary+".", "class", "help")
}
