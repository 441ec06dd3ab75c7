package console

import (
	"cmp"
	"maps"
	"net/url"
	"slices"

	"holdfast/internal/app/service"
)

// bulk writes the form for the selected rows, which stands above the table, and returns its element ID. The check
// boxes in the rows refer to it. It returns "" if rows cannot be selected, or if the session's role allows no action;
// the table then has no check boxes.
func (r *renderer) bulk(b *service.Bulk) string {
	if b == nil {
		return ""
	}
	forms := slices.DeleteFunc(slices.Clone(b.Forms), func(f service.Form) bool { return r.action(&f, f.Action) == nil })
	if len(forms) == 0 {
		return ""
	}
	id := r.newID()
	r.open("form", "id", id, "method", "post", "action", r.actionLink(&forms[0]), "class", "bulk")
	r.open("input", "type", "hidden", "name", "csrf", "value", r.x.session.csrf)
	r.open("input", "type", "hidden", "name", "return-to", "value", r.values.Encode())
	for _, name := range slices.Sorted(maps.Keys(b.Keep)) {
		r.exactInput("hidden", name, b.Keep[name])
	}
	for i := range forms {
		r.asked = ask(&service.Form{Keep: b.Keep})
		r.bulkForm(&forms[i], id)
	}
	r.element("span", "", "class", "chosen", "role", "status") // the script adds the number of chosen rows
	r.close("form")
	return id
}

// bulkForm writes one button for the selected rows. The button is behind a <details> with the form's fields and
// question; group links them, so that a browser opens one at a time. After a failed action its own <details> is open
// and has the typed values.
func (r *renderer) bulkForm(f *service.Form, group string) {
	class := "plain"
	if f.Danger {
		class = "danger"
	}
	failed := r.failed != nil && r.failed.action == f.Action
	isOpen, typed := "", url.Values(nil)
	if failed {
		isOpen, typed = "yes", r.failed.values
	}
	r.open("details", "class", "ask", "name", group+"-bulk", "open?", isOpen)
	r.element("summary", cmp.Or(f.Title, f.Submit)+"…", "class", class)
	if f.Ask != "" {
		r.element("p", f.Ask)
	}
	for i := range f.Fields {
		r.field(&f.Fields[i], typed)
	}
	if !f.Danger {
		class = ""
	}
	r.element("button", f.Submit, "type", "submit", "formaction", r.actionLink(f), "class", class)
	r.close("details")
}

// choice writes the cell with a row's check box. form is the ID from bulk. After a failed action the same rows are
// selected again.
func (r *renderer) choice(b *service.Bulk, row int, form string) {
	checked := ""
	if r.failed != nil && slices.Contains(r.failed.values["key"], b.Keys[row]) {
		checked = "yes"
	}
	r.open("td", "role", "cell", "class", "choice")
	r.exactInput("checkbox", "key", b.Keys[row], "form", form, "aria-label", "Select "+b.Names[row], "checked?", checked)
	r.close("td")
}

// actionLink returns the URL to which the form's button posts.
func (r *renderer) actionLink(f *service.Form) string {
	return r.x.link(r.section, cmp.Or(f.Page, r.at.Path)) + "?do=" + url.QueryEscape(f.Action)
}
