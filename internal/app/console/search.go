package console

import (
	"context"
	"strings"
	"sync"
	"time"

	"holdfast/internal/app/service"
)

// searchPath is the path of the search below the prefix.
const searchPath = "search"

const (
	searchTime   = 2 * time.Second // how long a search waits for the services
	longestQuery = 1024            // bytes: that of the longest name, an object's
)

// results are the hits of a section.
type results struct {
	hits []service.Hit
	err  error
}

// showSearch finds pages, and things of all services whose names begin with the query.
func (c *Console) showSearch(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	query := strings.TrimSpace(r.Value("q"))
	finds := []string{"pages"}
	for i := range c.Sections {
		if s := &c.Sections[i]; s.Finds != "" {
			finds = append(finds, s.Finds)
		}
	}
	view := &service.View{Blocks: []service.Block{&service.Text{Body: "Finds by the beginning of a name: " + strings.Join(finds, "; ") + "."}}}
	switch {
	case query == "":
		return view, nil
	case len(query) > longestQuery:
		view.Blocks = append(view.Blocks, &service.Notice{State: service.Warning, Text: "The query is too long: no name has more than 1024 bytes."})
		return view, nil
	}
	view.Title = "Search: " + query
	t := &service.Table{Search: []service.Field{{Name: "q", Label: "Search"}}, Columns: []service.Column{{Title: "Name"}, {Title: "Kind"}, {Title: "Section"}}, Empty: "Nothing has a name that begins so."}
	for i, found := range c.search(ctx, query) {
		s := &c.Sections[i]
		if found.err != nil {
			c.Log.Warn("search failed", "service", s.Name, "error", found.err)
			view.Blocks = append(view.Blocks, &service.Notice{State: service.Warning, Text: s.Title + " could not be searched: see its state on the overview."})
		}
		for _, h := range append(pagesNamed(s, query), found.hits...) {
			t.Rows = append(t.Rows, []service.Cell{{Text: h.Text, To: strings.TrimPrefix(c.link(s, h.To), Prefix), ID: service.IsLongID(h.Text)}, service.TextCell(h.Kind), service.TextCell(s.Title)})
		}
	}
	view.Blocks = append(view.Blocks, t)
	return view, nil
}

// search asks all sections at once, and waits for them for a short time.
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

// pagesNamed returns the pages of the navigation that have the query in their title.
func pagesNamed(s *Section, query string) (hits []service.Hit) {
	query = strings.ToLower(query)
	for i := range s.Pages {
		if pg := &s.Pages[i]; pg.Listed && (strings.Contains(strings.ToLower(pg.Title), query) || strings.HasPrefix(strings.ToLower(s.Title), query)) {
			hits = append(hits, service.Hit{Kind: "Page", Text: pg.Title, To: pg.Path})
		}
	}
	return hits
}
