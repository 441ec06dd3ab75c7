package console

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
)

// choicesPath is the path of the suggestions for what is being typed into a field.
const choicesPath = "choices"

// chooseTime is how long a page waits for the choices of a field. After it, the page has no other choices.
const chooseTime = time.Second

// asked is what a form says about its fields with a kind.
type asked struct {
	at   url.Values // values by the names of fields
	none string     // the choice of nothing, in a select
}

// ask begins a form with kept values.
func ask(keep map[string]string, none string) asked {
	a := asked{url.Values{}, none}
	for name, v := range keep {
		a.at.Set(name, v)
	}
	return a
}

// choices finds the things of a kind, once for a page. Without an answer, the operator types the name.
func (r *renderer) choices(kind string) []service.Option {
	if r.section.Choose == nil || r.silent {
		return nil
	}
	key := kind + "?" + r.asked.at.Encode()
	if found, ok := r.found[key]; ok {
		return found
	}
	if r.found == nil {
		r.found = map[string][]service.Option{}
	}
	ctx, cancel := context.WithTimeout(r.x.r.Context(), chooseTime)
	defer cancel()
	found, err := r.section.Choose(ctx, kind, "", r.asked.at)
	if code := errcode.Of(err); err != nil && code != errcode.Invalid && code != errcode.NotFound {
		r.x.Log.Warn("choices failed", "service", r.section.Name, "error", err)
		r.silent = true
	}
	r.found[key] = found
	return found
}

// choose gives a field of a kind its choices, and returns its value. The only thing is chosen, unless nothing may be.
func (r *renderer) choose(f service.Field, value string) (service.Field, string) {
	found := r.choices(f.Kind)
	if len(found) == 0 || len(found) > service.MaxChoices || f.Typed {
		if found != nil && len(found) == 0 && !f.Typed && !f.Optional {
			f.Help = strings.TrimSpace("No " + f.Kind + " exists yet. " + f.Help)
		}
		f.Typed, f.Options = true, found[:min(len(found), service.MaxChoices)]
		return f, value
	}
	f.Options = slices.Clone(found)
	for _, also := range f.Also {
		f.Options = append(f.Options, service.Option{Value: also, Text: also})
	}
	if value != "" && !slices.ContainsFunc(f.Options, func(o service.Option) bool { return o.Value == value }) {
		f.Options = append(f.Options, service.Option{Value: value, Text: value})
	}
	switch {
	case f.Optional:
		f.Options = slices.Insert(f.Options, 0, service.Option{Text: r.asked.none})
	case value == "" && len(f.Options) == 1:
		value = f.Options[0].Value
	case value == "":
		f.Options = slices.Insert(f.Options, 0, service.Option{Text: "Choose…"})
	}
	return f, value
}

// suggest renders an input with suggestions, which htmx replaces while somebody types.
func (r *renderer) suggest(f *service.Field, id string, input []string) {
	query := url.Values{"in": {r.section.Name}, "kind": {f.Kind}, "field": {f.Name}}
	sent := slices.Sorted(maps.Keys(r.asked.at))
	if !slices.Contains(sent, f.Name) {
		sent = append(sent, f.Name)
	}
	r.open("input", append(input, "list", id+"-list", "hx-get", Prefix+choicesPath+"?"+query.Encode(), "hx-include", "closest form", "hx-params", strings.Join(sent, ","),
		"hx-trigger", "focus, input changed delay:150ms", "hx-target", "#"+id+"-list", "hx-sync", "this:replace")...)
	r.open("datalist", "id", id+"-list")
	r.options(f.Options, "")
	r.close("datalist")
}

// options renders choices.
func (p *page) options(all []service.Option, chosen string) {
	for _, o := range all {
		selected := ""
		if o.Value == chosen {
			selected = "yes"
		}
		p.element("option", o.Text, "value", o.Value, "selected?", selected)
	}
}

// sendChoices answers with the options of a field for what is being typed.
func (x *exchange) sendChoices() error {
	at := x.r.URL.Query()
	i := slices.IndexFunc(x.Sections, func(s Section) bool { return s.Name == at.Get("in") })
	prefix := strings.TrimSpace(at.Get(at.Get("field")))
	if i < 0 || x.Sections[i].Choose == nil || x.r.Method == http.MethodPost || len(prefix) > longestQuery {
		return errPage
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), searchTime)
	defer cancel()
	p := &page{}
	p.options(x.Sections[i].beginning(ctx, at.Get("kind"), prefix, at), "")
	send(x.w, http.StatusOK, "text/html; charset=utf-8", p.String())
	return nil
}

// beginning returns the things of a kind whose names begin with a prefix, those of the search first. A list cannot begin with every
// prefix, and a database may be down: then there are fewer suggestions.
func (s *Section) beginning(ctx context.Context, kind, prefix string, at url.Values) (all []service.Option) {
	if s.Search != nil && prefix != "" {
		hits, _ := s.Search(ctx, prefix)
		for _, h := range hits {
			if o, ok := optionOf(h, kind, at); ok {
				all = append(all, o)
			}
		}
	}
	listed, _ := s.Choose(ctx, kind, prefix, at)
	for _, o := range listed[:min(len(listed), service.MaxChoices)] {
		if !slices.ContainsFunc(all, func(other service.Option) bool { return other.Value == o.Value }) {
			all = append(all, o)
		}
	}
	return all
}

// optionOf returns the choice of a hit of a kind, if it belongs to what a form says besides. The link of a hit names it.
func optionOf(h service.Hit, kind string, at url.Values) (o service.Option, ok bool) {
	if !strings.EqualFold(h.Kind, kind) {
		return o, false
	}
	to, err := url.Parse(h.To)
	if err != nil {
		return o, false
	}
	names := to.Query()
	for name := range names {
		if name != kind && at.Get(name) != names.Get(name) {
			return o, false
		}
	}
	return service.NamedOption(names.Get(kind), h.Text), names.Get(kind) != ""
}
