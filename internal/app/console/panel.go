package console

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"holdfast/internal/app/service"
)

// isFolded reports whether a form is in a drawer until it is needed. Forms with a trial button are part of the page, since
// they are its purpose.
func isFolded(f *service.Form) bool {
	return f.Title != "" && f.Trial == nil && !isLone(f)
}

// isLone reports whether a form is only a button.
func isLone(f *service.Form) bool {
	return len(f.Fields) == 0 && f.Confirm == "" && f.Trial == nil
}

// formID returns the element ID that service.FormAnchor links to.
func formID(f *service.Form) string { return service.FormAnchor(f.Page, f.Action)[1:] }

// starts writes buttons for the page's forms beside the title, if it has a list, or else collects nothing: then a line
// of its own opens each form, see drawerLine. Forms that destroy, and those after the first two, are behind a menu.
// Forms that the role may not send get no button.
func (r *renderer) starts(blocks []service.Block) {
	var forms []*service.Form
	for _, b := range blocks {
		switch b := b.(type) {
		case *service.Table:
			r.hasList = true
		case *service.Live:
			r.hasList = r.hasList || has[*service.Table](b.Blocks)
		case *service.Form:
			if isFolded(b) && r.action(b, b.Action) != nil {
				forms = append(forms, b)
			}
		}
	}
	if !r.hasList || len(forms) == 0 {
		return
	}
	shown, others := forms, []*service.Form(nil)
	for len(shown) > mostStarts || len(shown) > 0 && shown[len(shown)-1].Danger {
		others = append(others, shown[len(shown)-1])
		shown = shown[:len(shown)-1]
	}
	r.open("div", "class", "starts")
	for i, f := range shown {
		class := "primary"
		if i > 0 || f.Danger {
			class = "primary plain"
		}
		r.opener(f, f.Title, class)
	}
	if len(others) > 0 {
		slices.Reverse(others)
		r.open("details", "class", "others")
		r.open("summary", "aria-label", "More actions")
		r.icon("more")
		r.close("summary")
		r.open("div")
		for _, f := range others {
			class := "plain"
			if f.Danger {
				class = "danger"
			}
			r.opener(f, f.Title, class)
		}
		r.close("div", "details")
	}
	r.close("div")
}

// mostStarts limits the buttons for forms at the top of a page.
const mostStarts = 2

// opener writes the button that opens a form's drawer.
func (r *renderer) opener(f *service.Form, text, class string) {
	icon := ""
	switch first, _, _ := strings.Cut(f.Title, " "); {
	case takesFiles(f):
		icon = "upload"
	case slices.Contains([]string{"Add", "Create", "Register"}, first):
		icon = "plus"
	}
	r.open("button", "type", "button", "popovertarget", formID(f), "class", class)
	if icon != "" {
		r.icon(icon)
	}
	r.text(text)
	r.close("button")
}

// takesFiles reports whether a form accepts several files, which can be dropped on it.
func takesFiles(f *service.Form) bool {
	return slices.ContainsFunc(f.Fields, func(field service.Field) bool { return field.File && !field.One })
}

// openDrawer begins a form beside the page; the caller closes the <section>. Without a list on the page, a line with a
// button stands where the form is; see starts. Browsers show the drawer when its button is pressed, or when the address
// names it, both without a script. After a failed action it is shown from the beginning.
func (r *renderer) openDrawer(f *service.Form, isOpen bool) {
	id := formID(f)
	if !r.hasList {
		class := "plain"
		if f.Danger {
			class = "danger"
		}
		r.openLine(f)
		r.opener(f, cmp.Or(f.Submit, f.Title)+"…", class)
		r.close("div")
	}
	attrs := []string{"id", id, "class", "sheet", "role", "dialog", "aria-labelledby", id + "-title"}
	if isOpen {
		attrs[3] = "sheet shown"
	} else {
		attrs = append(attrs, "popover", "auto")
	}
	r.open("section", attrs...)
	r.open("div", "class", "top")
	r.element("h2", f.Title, "id", id+"-title")
	if isOpen {
		r.element("a", "Close", "href", r.self(slices.Collect(maps.Keys(r.values))), "class", "close")
	} else {
		r.element("button", "Close", "type", "button", "class", "plain", "popovertarget", id, "popovertargetaction", "hide")
		r.element("a", "Close", "href", "#main", "class", "close")
	}
	r.close("div")
}

// openLine begins a line with a form's title and text; the caller adds the button and closes the <div>.
func (r *renderer) openLine(f *service.Form) {
	r.open("div", "class", "line-of-form")
	r.open("div")
	r.element("h2", f.Title)
	if f.Text != "" {
		r.element("p", f.Text)
	}
	r.close("div")
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
