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

const choicesPath = "choices"

const anyChoice = "Any"

const chooseTime = time.Second

type asked struct {
	at   url.Values
	page url.Values
	none string
}

func ask(f *service.Form) asked {
	a := asked{url.Values{}, url.Values{}, "Not chosen"}
	for name, v := range f.Keep {
		a.at.Set(name, v)
	}
	for name, v := range f.At {
		if !a.at.Has(name) {
			a.page.Set(name, v)
		}
	}
	return a
}

func (a *asked) values() url.Values {
	all := maps.Clone(a.page)
	maps.Copy(all, a.at)
	return all
}

// choices reads the things of a kind once per page. If it returns nil, the operator types the name.
func (r *renderer) choices(kind string) *service.Choices {
	if r.section.Choose == nil || r.silent {
		return nil
	}
	at := r.asked.values()
	key := kind + "?" + at.Encode()
	if found, ok := r.found[key]; ok {
		return found
	}
	if r.found == nil {
		r.found = map[string]*service.Choices{}
	}
	ctx, cancel := context.WithTimeout(r.x.r.Context(), chooseTime)
	defer cancel()
	found, err := r.section.Choose(ctx, kind, "", at)
	if code := errcode.Of(err); err != nil && code != errcode.Invalid && code != errcode.NotFound {
		r.x.Log.Warn("choices failed", "service", r.section.Name, "error", err)
		r.silent = true
	}
	if err != nil {
		found = nil
	}
	r.found[key] = found
	return found
}

func (r *renderer) choose(f service.Field, value string) (service.Field, string) {
	found := r.choices(f.Kind)
	if found == nil {
		f.Typed = true
		return f, value
	}
	if n := len(found.All); n == 0 || n > service.MaxChoices || f.Typed {
		if n == 0 && !f.Typed && r.asked.none != anyChoice {
			f.Help, f.First = strings.TrimSpace("There is no "+f.Kind+" yet. "+f.Help), found.First
		}
		f.Typed, f.Options = true, found.All[:min(n, service.MaxChoices)]
		return f, value
	}
	f.Options = slices.Clone(found.All)
	for _, also := range f.Also {
		f.Options = append(f.Options, service.Option{Value: also, Text: also})
	}
	if f.Many {
		return f, value
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

func (r *renderer) suggest(f *service.Field, id string, input []string) {
	query := url.Values{"in": {r.section.Name}, "kind": {f.Kind}, "field": {f.Name}}
	if f.Many {
		query.Set("many", "yes")
	}
	maps.Copy(query, r.asked.page)
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

func (r *renderer) boxes(f *service.Field, id, value string) {
	chosen := strings.Fields(value)
	attrs := []string{"class", "field many"}
	if f.Help != "" {
		attrs = append(attrs, "aria-describedby", id+"-help")
	}
	r.open("fieldset", attrs...)
	r.element("legend", f.Label)
	for _, o := range f.Options {
		box, checked := r.newID(), ""
		if slices.Contains(chosen, o.Value) {
			checked = "yes"
		}
		r.open("span")
		r.open("input", "id", box, "name", f.Name, "type", "checkbox", "value", o.Value, "checked?", checked)
		r.element("label", o.Text, "for", box)
		r.close("span")
	}
	boxes := *f
	boxes.Help = strings.TrimSuffix(f.Help, "; several with spaces between them")
	r.help(&boxes, id)
	r.close("fieldset")
}

func (r *renderer) help(f *service.Field, id string) {
	if f.Help == "" {
		return
	}
	r.open("p", "id", id+"-help", "class", "help")
	r.text(upper(f.Help))
	if f.First != nil {
		r.text(" ")
		r.element("a", f.First.Text, "href", r.x.link(r.section, f.First.To))
	}
	r.close("p")
}

func (p *page) options(all []service.Option, chosen string) {
	for _, o := range all {
		selected := ""
		if o.Value == chosen {
			selected = "yes"
		}
		p.element("option", o.Text, "value", o.Value, "selected?", selected)
	}
}

func (x *exchange) sendChoices() error {
	at := x.r.URL.Query()
	i := slices.IndexFunc(x.Sections, func(s Section) bool { return s.Name == at.Get("in") })
	before, prefix := "", strings.TrimSpace(at.Get(at.Get("field")))
	if cut := strings.LastIndexByte(prefix, ' ') + 1; at.Get("many") != "" {
		before, prefix = prefix[:cut], prefix[cut:]
	}
	if i < 0 || x.Sections[i].Choose == nil || x.r.Method == http.MethodPost || len(prefix) > longestQuery {
		return errPage
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), searchTime)
	defer cancel()
	p := &page{}
	all := x.Sections[i].beginning(ctx, at.Get("kind"), prefix, at)
	for i := range all {
		all[i].Value = before + all[i].Value
	}
	p.options(all, "")
	send(x.w, http.StatusOK, "text/html; charset=utf-8", p.String())
	return nil
}

// beginning returns the things whose names begin with prefix, search hits first.
func (s *Section) beginning(ctx context.Context, kind, prefix string, at url.Values) (all []service.Option) {
	if s.Search != nil && prefix != "" {
		hits, _ := s.Search(ctx, prefix)
		for _, h := range hits {
			if o, ok := optionOf(h, kind, at); ok {
				all = append(all, o)
			}
		}
	}
	listed, err := s.Choose(ctx, kind, prefix, at)
	if listed == nil || err != nil {
		return all
	}
	for _, o := range listed.All[:min(len(listed.All), service.MaxChoices)] {
		if !slices.ContainsFunc(all, func(other service.Option) bool { return other.Value == o.Value }) {
			all = append(all, o)
		}
	}
	return all
}

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
