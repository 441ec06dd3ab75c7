package console

import "holdfast/internal/app/service"

// head renders the heads of the columns. A head with an order is a link; that of the
// current order reverses it.
func (r *renderer) head(t *service.Table, keep []string, bulk string) {
	r.open("thead")
	r.open("tr")
	if bulk != "" {
		r.element("th", "Select", "scope", "col", "class", "choice", "data-all", bulk)
	}
	for _, c := range t.Columns {
		attrs := []string{"scope", "col", "class", classOf(&c)}
		current := c.Sort != "" && c.Sort == t.Sort
		reversed := r.values.Get("reverse") != ""
		if current {
			// The natural order of values is the greatest first.
			order := "descending"
			if reversed {
				order = "ascending"
			}
			attrs = append(attrs, "aria-sort", order)
		}
		r.open("th", attrs...)
		switch {
		case c.Sort == "":
			r.text(c.Title)
		case current && !reversed:
			r.element("a", c.Title, "href", r.self(keep, "sort", c.Sort, "reverse", "yes"))
		default:
			r.element("a", c.Title, "href", r.self(keep, "sort", c.Sort, "reverse", ""))
		}
		r.close("th")
	}
	r.close("tr", "thead")
}

// classOf returns the class of the cells of a column.
func classOf(c *service.Column) string {
	switch {
	case c.Wide:
		return "wide"
	case c.Number:
		return "number"
	}
	return ""
}
