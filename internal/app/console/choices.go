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

const choicesPath = "choices" // the page that completes names while an operator types

const anyChoice = "Any" // the first option in a filter, which does not restrict the list

const chooseTime = time.Second // for a field's choices; afterwards it becomes a text input

// asked holds the values that choices depend on while a form is rendered, e.g. the account whose buckets are listed.
type asked struct {
	// the form's values, which the browser sends again when the operator changes them
	at   url.Values
	page url.Values // values that the form does not contain, from the page's address
	none string     // an optional select's first option
}

// ask returns the values that a form's choices begin with. A value in Keep overrides the same name in At.
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

// values returns the form's and the page's values together, for service.Chooser.
func (a *asked) values() url.Values {
	all := maps.Clone(a.page)
	maps.Copy(all, a.at)
	return all
}

// choices reads the things of a kind, once for each combination of kind and values. If it returns nil, the operator
// types the name: the service has no choices, the kind is unknown, or the read failed. After the first unexpected
// error it asks no more on this page, so that a page for a database that is down costs one timeout.
func (r *renderer) choices(kind string) *service.Choices {
	if r.section.Choose == nil || r.silent {
		return nil
	}
	at := r.asked.values()
	key := kind + "?" + at.Encode()
	if choices, ok := r.found[key]; ok {
		return choices
	}
	if r.found == nil {
		r.found = map[string]*service.Choices{}
	}
	ctx, cancel := context.WithTimeout(r.x.r.Context(), chooseTime)
	defer cancel()
	suggested, err := r.section.Choose(ctx, kind, "", at)
	if code := errcode.Of(err); err != nil && code != errcode.Invalid && code != errcode.NotFound {
		r.x.Log.Warn("choices failed", "service", r.section.Name, "error", err)
		r.silent = true
	}
	if err != nil {
		suggested = nil
	}
	r.found[key] = suggested
	return suggested
}

// choose returns the field as a select, a text input or check boxes, and its value. With too many choices, none, or
// Field.Typed, it is an input with suggestions. A value that is not among the choices stays, because the thing may be
// new or deleted. A required field with a single choice is filled in.
func (r *renderer) choose(f service.Field, value string) (service.Field, string) {
	choices := r.choices(f.Kind)
	if choices == nil {
		f.Typed = true
		return f, value
	}
	if n := len(choices.All); n == 0 || n > service.MaxChoices || f.Typed {
		if n == 0 && !f.Typed && r.asked.none != anyChoice {
			f.Help, f.First = strings.TrimSpace("There is no "+f.Kind+" yet. "+f.Help), choices.First
		}
		f.Typed, f.Options = true, choices.All[:min(n, service.MaxChoices)]
		return f, value
	}
	f.Options = slices.Clone(choices.All)
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

// suggest writes an input whose <datalist> htmx fills while the operator types. htmx sends only the values that the
// choices depend on (asked.at), and never other fields, such as secrets. input has the input's attributes.
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

// boxes writes a check box for each option. value has the chosen ones with spaces between them, as the operation
// expects them.
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

// help writes the sentence below an input, with a link to the page where the first choice can be created.
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

// options writes <option> elements for a select or a <datalist>.
func (p *page) options(all []service.Option, chosen string) {
	for _, o := range all {
		selected := ""
		if o.Value == chosen {
			selected = "yes"
		}
		p.element("option", o.Text, "value", o.Value, "selected?", selected)
	}
}

// sendChoices answers suggest's request with <option> elements. In a field for several names it completes the last
// word and repeats the others in front of it, because a <datalist> option replaces the whole input. A service error
// gives an empty list.
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

// beginning returns the things of a kind whose names begin with prefix: search hits first, then the choices that are
// not among them. Search may find by a display name, Choose may not.
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

// optionOf converts a search hit to an option. The technical name is in the hit's link. ok is false for another kind,
// and for a thing that belongs elsewhere, e.g. to another account than the form's.
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
