package console

import (
	"slices"
	"strings"
	"unicode/utf8"

	"holdfast/internal/app/service"
)

// head writes the column titles, which are links if the column can be sorted. keep are the parameters that the links
// keep, bulk is the ID from renderer.bulk.
func (r *renderer) head(t *service.Table, o *order, keep []string, bulk string) {
	r.open("thead", "role", "rowgroup")
	r.open("tr", "role", "row")
	if bulk != "" {
		r.element("th", "Select", "scope", "col", "role", "columnheader", "class", "choice", "data-all", bulk)
	}
	for i := range t.Columns {
		c := &t.Columns[i]
		to, sorted := r.ownOrder(t, c, keep)
		if o != nil && isSortable(t, i) {
			to = r.orderLink(o, i, c.Title)
			if i == o.column {
				sorted = direction(o.descends)
			}
		}
		attrs := []string{"scope", "col", "role", "columnheader", "class", classOf(c)}
		if sorted != "" {
			attrs = append(attrs, "aria-sort", sorted)
		}
		r.open("th", attrs...)
		if to == "" {
			r.text(c.Title)
		} else {
			r.element("a", c.Title, "href", to)
		}
		r.close("th")
	}
	r.close("tr", "thead")
}

func direction(descends bool) string {
	if descends {
		return "descending"
	}
	return "ascending"
}

// ownOrder returns the link for a list that sorts with an index (service.Column.Sort), and the column's aria-sort
// value. Both are "" for other columns.
func (r *renderer) ownOrder(t *service.Table, c *service.Column, keep []string) (to, sorted string) {
	if c.Sort == "" {
		return "", ""
	}
	reversed, reverse := r.values.Get("reverse") != "", ""
	if c.Sort == t.Sort {
		sorted = direction(!reversed)
		if !reversed {
			reverse = "yes"
		}
	}
	return r.self(keep, "sort", c.Sort, "reverse", reverse), sorted
}

func classOf(c *service.Column) string {
	if c.Number {
		return "number"
	}
	return ""
}

// Columns' places in a row on phones, as CSS classes.
const (
	asName    = "name"    // first line
	asState   = "status"  // end of the first line
	asLine    = "line"    // second line
	asLabeled = "line of" // second line, labeled with the column title
	asRest    = "rest"    // after a tap
	asActions = "act"     // after a tap; on wide screens, many are in a menu
)

const (
	lineChars  = 44 // second line, in characters
	mostInMenu = 2  // buttons; more are in a menu on large screens
)

// partsOf returns where each column is on a phone, by index. A phone shows the name and the state in the first line,
// as many values as fit into lineChars in the second, and everything else after a tap.
func partsOf(t *service.Table) []string {
	parts := make([]string, len(t.Columns))
	named, hasState, left := nameOf(t), false, lineChars
	for i := range parts {
		some := func(is func(*service.Cell) bool) bool {
			return slices.ContainsFunc(t.Rows, func(row []service.Cell) bool { return i < len(row) && is(&row[i]) })
		}
		width := widthOf(t, i)
		switch {
		case some(func(c *service.Cell) bool { return len(c.Forms) > 0 }):
			parts[i] = asActions
		case i == named:
			parts[i] = asName
		case !hasState && (t.Columns[i].Title == "State" || some(func(c *service.Cell) bool { return c.State != "" })):
			parts[i], hasState = asState, true
		case left < lineChars && width > left, some(func(c *service.Cell) bool { return c.To != "" && c.Text == t.Columns[i].Title }):
			parts[i] = asRest
		default: // the first may overflow the line
			parts[i] = asLabeled
			left -= width
		}
	}
	for _, kind := range []func(*service.Cell) bool{isTime, isSize} {
		unlabel(t, parts, kind)
	}
	return parts
}

// widthOf returns a column's greatest width in characters, with its title, as a phone shows it.
func widthOf(t *service.Table, column int) (width int) {
	const shortened = 12 // an ID with its button, or a time, e.g. 3 hours ago
	for _, row := range t.Rows {
		if column >= len(row) || isNone(&row[column]) {
			continue
		}
		n := utf8.RuneCountInString(row[column].Text)
		if row[column].ID || isTime(&row[column]) {
			n = shortened
		}
		width = max(width, n+len(t.Columns[column].Title))
	}
	return width
}

// nameOf returns the column index that names the rows.
func nameOf(t *service.Table) int {
	at := slices.IndexFunc(t.Columns, func(c service.Column) bool { return c.Names })
	if at < 0 {
		at = slices.IndexFunc(t.Columns, func(c service.Column) bool { return c.Title != "State" })
	}
	return max(at, 0)
}

// unlabel drops a column's label if its values explain themselves (times, sizes), if it is the only one of this kind.
func unlabel(t *service.Table, parts []string, isKind func(*service.Cell) bool) {
	last := -1
	for i, part := range parts {
		isOther := func(row []service.Cell) bool { return i < len(row) && !isNone(&row[i]) && !isKind(&row[i]) }
		if part != asLabeled || slices.ContainsFunc(t.Rows, isOther) {
			continue
		}
		if last >= 0 {
			return
		}
		last = i
	}
	if last >= 0 {
		parts[last] = asLine
	}
}

func isTime(c *service.Cell) bool { return !c.Time.IsZero() }

// isSize reports a number with a unit, such as 1.5 MiB.
func isSize(c *service.Cell) bool {
	number, unit, _ := strings.Cut(c.Text, " ")
	return unit != "" && strings.Trim(number, "0123456789.+-") == ""
}

// isNone reports a cell that a phone leaves out and that sorts last.
func isNone(c *service.Cell) bool {
	return (c.Text == "" || c.Text == "-") && c.State == "" && len(c.Forms) == 0
}

// rows writes the table's body. The rows' switches share a group, so that one row is open at a time.
func (r *renderer) rows(t *service.Table, parts []string, bulk string) {
	r.open("tbody", "role", "rowgroup")
	group := r.newID()
	for at, row := range t.Rows {
		r.open("tr", "role", "row")
		if bulk != "" {
			r.choice(t.Bulk, at, bulk)
		}
		r.row(t, row, parts, group)
		r.close("tr")
	}
	r.close("tbody")
}

// row writes a row for tables and phones at once; its cells' classes decide. A row with buttons, or with values that
// a phone hides, gets a switch: in the cell with the buttons, or beside the name. The row whose action failed is
// open.
func (r *renderer) row(t *service.Table, row []service.Cell, parts []string, group string) {
	name, toggle, menu, hasRest := "", "", slices.Index(parts, asActions), false
	for i := range min(len(row), len(parts)) {
		hasRest = hasRest || parts[i] == asRest && !isNone(&row[i])
		if parts[i] == asName {
			name = row[i].Text
		}
	}
	hasForms := menu >= 0 && menu < len(row) && r.offers(row[menu].Forms)
	switch {
	case hasForms:
		toggle = "Actions of " + name
	case hasRest:
		toggle = "More of " + name
	}
	for i := range row {
		part, class, label := asRest, "", ""
		if i < len(t.Columns) {
			part, class, label = parts[i], classOf(&t.Columns[i]), t.Columns[i].Title
		}
		if isNone(&row[i]) && part != asName && part != asActions { // phones omit it
			part += " none"
		}
		if row[i].Text == label { // such as a link to a list
			label = ""
		}
		if part == asActions && hasForms && len(row[i].Forms) > mostInMenu {
			part += " many"
		}
		r.open("td", "role", "cell", "class", strings.TrimSpace(class+" "+part), "data-label", label)
		switch {
		case i == menu && hasForms:
			r.toggle(toggle, group, r.hasFailed(row[i].Forms))
			r.open("div", "class", "forms")
			r.cell(&row[i], true)
			r.close("div")
		case strings.HasPrefix(part, asName) && !hasForms && toggle != "":
			r.cell(&row[i], true)
			r.toggle(toggle, group, false)
		default:
			r.cell(&row[i], true)
		}
		r.close("td")
	}
}

// toggle writes a detail switch. The style sheet expands the row, because the details span several cells.
func (r *renderer) toggle(label, group string, isOpen bool) {
	open := ""
	if isOpen {
		open = "yes"
	}
	r.open("details", "class", "more", "name", group+"-row", "open?", open)
	r.open("summary", "aria-label", label)
	r.icon("more")
	r.close("summary", "details")
}

// offers reports whether the role may use a form.
func (r *renderer) offers(forms []service.Form) bool {
	return slices.ContainsFunc(forms, func(f service.Form) bool { return r.action(&f, f.Action) != nil })
}

// hasFailed reports whether the last action came from these forms.
func (r *renderer) hasFailed(forms []service.Form) bool {
	return r.failed != nil && slices.ContainsFunc(forms, func(f service.Form) bool { return r.failed.action == f.Action && keeps(r.failed.values, f.Keep) })
}
