package console

import (
	"slices"
	"strings"

	"holdfast/internal/app/service"
)

// isFolded reports whether a form is hidden behind its title until it is needed. Forms with a trial button or files
// stay open, since they are the purpose of their page.
func isFolded(f *service.Form) bool { return f.Title != "" && f.Trial == nil && !takesFiles(f) }

// hasAnchor reports whether links may lead to the form.
func hasAnchor(f *service.Form) bool { return isFolded(f) || takesFiles(f) }

// formID returns the element ID that service.FormAnchor links to.
func formID(f *service.Form) string { return service.FormAnchor(f.Page, f.Action)[1:] }

// starts writes links to the page's forms beside the title, if a long block stands above the forms. Dangerous forms,
// and forms that the role may not send, get none.
func (r *renderer) starts(blocks []service.Block) {
	var links []*service.Form
	isLong := false
	for _, b := range blocks {
		switch b := b.(type) {
		case *service.Table, *service.Image, *service.Text:
			isLong = true
		case *service.Form:
			if isLong && hasAnchor(b) && !b.Danger && r.action(b, b.Action) != nil {
				links = append(links, b)
			}
		}
	}
	if len(links) == 0 || len(links) > mostStarts {
		return
	}
	r.open("p", "class", "starts")
	class := "primary"
	for _, f := range links {
		r.open("a", "href", "#"+formID(f), "class", class)
		switch first, _, _ := strings.Cut(f.Title, " "); {
		case takesFiles(f):
			r.icon("upload")
		case slices.Contains([]string{"Add", "Create", "Register"}, first):
			r.icon("plus")
		}
		r.text(f.Title)
		r.close("a")
		class = "primary plain"
	}
	r.close("p")
}

// mostStarts limits the links to forms at the top of a page. A page with more forms has no links, because it shows
// little else.
const mostStarts = 2

// takesFiles reports whether a form accepts several files, which can be dropped on it.
func takesFiles(f *service.Form) bool {
	return slices.ContainsFunc(f.Fields, func(field service.Field) bool { return field.File && !field.One })
}

// openPanel begins a folded form; the caller closes the <details>.
func (r *renderer) openPanel(f *service.Form, isOpen bool) {
	open, class := "", ""
	if isOpen {
		open = "yes"
	}
	if f.Danger {
		class = "danger"
	}
	r.open("details", "class", "panel", "open?", open)
	r.open("summary", "class", class)
	r.element("h2", f.Title)
	r.close("summary")
}

// views writes links to other presentations of the same page.
func (r *renderer) views(v *service.Views) {
	r.open("nav", "aria-label", v.Label, "class", "spans")
	for _, l := range v.All {
		attrs := []string{"href", r.x.link(r.section, l.To)}
		if l.Text == v.Current {
			attrs = append(attrs, "aria-current", "true")
		}
		r.element("a", l.Text, attrs...)
	}
	r.close("nav")
}
