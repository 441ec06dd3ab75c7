package app_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
	pages "holdfast/internal/operate/console"
)

// TestEveryPageIsLinked walks the pages of all operations, with one row in each list: each page is in the navigation, or
// another page links to it.
func TestEveryPageIsLinked(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, s := range allDeclared() {
		var all []operate.Operation
		for _, o := range s.all {
			all = append(all, o.Sample())
		}
		linked := map[string]bool{}
		if s.folder == "extstorage" {
			linked["schemas"] = true // the page records, which is written by hand, links to it
		}
		shown := pages.Pages(nil, all)
		for _, p := range shown {
			if seen++; p.Listed {
				linked[p.Path] = true
			}
			for path := range linksOf(t, &p, all) {
				if path != p.Path {
					linked[path] = true
				}
			}
		}
		for _, p := range shown {
			if !linked[p.Path] {
				t.Errorf("%s: no other page links to %s", s.folder, p.Path)
			}
		}
	}
	if seen < 40 {
		t.Errorf("there are only %d pages", seen)
	}
}

// linksOf returns the paths of the pages to which a page and its forms that read link.
func linksOf(t *testing.T, p *service.Page, all []operate.Operation) map[string]bool {
	t.Helper()
	paths := map[string]bool{}
	add := func(to string) {
		path, _, _ := strings.Cut(to, "?")
		paths[path] = true
	}
	r := &service.PageRequest{Values: url.Values{}}
	for i := range all {
		for _, in := range all[i].Inputs {
			if in.Subject {
				r.Values.Set(in.Name, "1")
			}
		}
	}
	if p.Show != nil {
		view, err := p.Show(t.Context(), r)
		if err != nil {
			t.Fatalf("%s: %v", p.Path, err)
		}
		eachLink(view.Blocks, add)
	}
	for _, a := range p.Actions {
		if !a.Reads {
			continue
		}
		outcome, err := a.Run(t.Context(), r)
		if err != nil {
			t.Fatalf("%s, %s: %v", p.Path, a.Name, err)
		}
		if add(outcome.Next); outcome.View != nil {
			eachLink(outcome.View.Blocks, add)
		}
	}
	return paths
}

// eachLink calls fn with each link of blocks.
func eachLink(blocks []service.Block, fn func(to string)) {
	for _, b := range blocks {
		switch b := b.(type) {
		case *service.Table:
			for _, c := range slices.Concat(b.Rows...) {
				fn(c.To)
			}
		case *service.Facts:
			for _, f := range b.Rows {
				fn(f.To)
			}
		case *service.Links:
			for _, l := range b.All {
				fn(l.To)
			}
		case *service.Live:
			eachLink(b.Blocks, fn)
		}
	}
}
