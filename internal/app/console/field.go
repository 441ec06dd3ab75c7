package console

import (
	"net/url"
	"strconv"
	"strings"

	"holdfast/internal/app/service"
)

// field writes a label with its input. typed overrides the initial value, except for secrets, which are never sent
// back. A failed form's first wrong field gets the focus.
func (r *renderer) field(f *service.Field, typed url.Values) {
	id, value := r.newID(), f.Value
	if typed != nil && !f.Secret {
		value = strings.Join(typed[f.Name], " ")
	}
	if f.Kind != "" {
		var chosen service.Field
		chosen, value = r.choose(*f, value)
		f = &chosen
		r.asked.at.Set(f.Name, value)
		if f.Many && !f.Typed {
			r.boxes(f, id, value)
			return
		}
	}
	attrs := []string{"id", id, "name", f.Name}
	problem := r.wrong[f.Name]
	if r.focus && (problem != "" || len(r.wrong) == 0) {
		attrs, r.focus = append(attrs, "autofocus?", "yes"), false
	}
	var described []string
	if f.Help != "" {
		described = append(described, id+"-help")
	}
	if problem != "" {
		attrs, described = append(attrs, "aria-invalid", "true"), append(described, id+"-error")
	}
	if described != nil {
		attrs = append(attrs, "aria-describedby", strings.Join(described, " "))
	}
	r.open("div", "class", "field")
	if f.Checkbox {
		checked := ""
		if value == "yes" {
			checked = "yes"
		}
		r.open("input", append(attrs, "type", "checkbox", "value", "yes", "checked?", checked)...)
		r.element("label", f.Label, "for", id)
	} else {
		r.element("label", f.Label, "for", id)
		if !f.Optional {
			attrs = append(attrs, "required?", "yes")
		}
		r.input(f, value, attrs)
	}
	r.help(f, id)
	if problem != "" {
		r.element("p", upper(problem)+".", "id", id+"-error", "class", "error")
	}
	r.close("div")
}

// input writes the input element for a field. attrs begin with its ID.
func (r *renderer) input(f *service.Field, value string, attrs []string) {
	switch {
	case f.Options != nil && !f.Typed:
		r.open("select", attrs...)
		r.options(f.Options, value)
		r.close("select")
	case f.File:
		if !f.One {
			attrs = append(attrs, "multiple?", "yes")
		}
		r.open("input", append(attrs, "type", "file")...)
	case f.Lines > 0:
		r.open("textarea", append(attrs, "rows", strconv.Itoa(f.Lines), "spellcheck", "false")...)
		r.WriteByte('\n') // the parser drops the first line break
		r.exact(value)
		r.close("textarea")
	default:
		kind := "text"
		if f.Secret {
			kind = "password"
		}
		attrs = append(inputType(f, kind, attrs), "value", value, "autocomplete", "off", "spellcheck", "false")
		if f.Kind != "" {
			r.suggest(f, attrs[1], attrs)
			return
		}
		r.open("input", attrs...)
	}
}

// inputType adds the type to an input's attributes: kind, unless Field.Input asks for another.
func inputType(f *service.Field, kind string, attrs []string) []string {
	switch f.Input {
	case "date", "email":
		kind = f.Input
	case "datetime-local":
		kind, attrs = f.Input, append(attrs, "step", "any") // seconds are shown unless they are zero
	case "decimal", "numeric":
		attrs = append(attrs, "inputmode", f.Input)
	}
	return append(attrs, "type", kind)
}
