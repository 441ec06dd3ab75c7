package console

import (
	"net/url"
	"slices"

	"holdfast/internal/app/service"
)

// search writes the search form above a list. With more than one field, phones hide it behind a switch, which is open
// while a filter is set. The sort order stays, the position in the list does not.
func (r *renderer) search(t *service.Search) {
	if len(t.Fields) > 1 {
		open := ""
		if slices.ContainsFunc(t.Fields, func(f service.Field) bool { return r.values.Get(f.Name) != "" }) {
			open = "yes"
		}
		r.open("details", "class", "filter", "open?", open)
		r.element("summary", "Filter")
		r.close("details")
	}
	r.open("form", "method", "get", "action", r.x.link(r.section, r.at.Path), "class", "search", "role", "search", "aria-label", "Search this list")
	for _, name := range append(slices.Clone(t.Keep), "sort", "reverse") {
		if v := r.values.Get(name); v != "" {
			r.exactInput("hidden", name, v)
		}
	}
	r.asked = asked{r.kept(t.Keep), nil, anyChoice}
	for i := range t.Fields {
		f := t.Fields[i]
		if f.Value == "" {
			f.Value = r.values.Get(f.Name)
		}
		f.Optional = true
		r.field(&f, nil)
	}
	r.element("button", "Search", "type", "submit", "class", "plain")
	r.close("form")
}

// kept returns the parameters' current values. Missing ones are "".
func (r *renderer) kept(names []string) url.Values {
	at := url.Values{}
	for _, name := range names {
		at.Set(name, r.values.Get(name))
	}
	return at
}
