package console

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/durations"
)

// order sorts a complete table by a column; -1: unsorted. Paged lists use their indexes instead (service.Column.Sort).
type order struct {
	column   int // index in Table.Columns
	descends bool
	// parameter names in the page's address; tables after the first append a number
	sort, desc string
}

// orderOf returns the order that the operator chose for a table. nil means that the rows at hand are not all rows, or
// that the list has its own orders, so that sorting them would mislead.
func (r *renderer) orderOf(t *service.Table) *order {
	r.tables++
	hasOwn := slices.ContainsFunc(t.Columns, func(c service.Column) bool { return c.Sort != "" })
	if hasOwn || t.Partial || t.Next != "" || r.values.Get("after") != "" || len(t.Rows) < 2 {
		return nil
	}
	o := &order{sort: "sort", desc: "desc"}
	if r.tables > 1 {
		o.sort += strconv.Itoa(r.tables)
		o.desc += strconv.Itoa(r.tables)
	}
	chosen := r.values.Get(o.sort)
	o.column = slices.IndexFunc(t.Columns, func(c service.Column) bool { return chosen != "" && c.Title == chosen })
	if o.column >= 0 && !isSortable(t, o.column) {
		o.column = -1
	}
	o.descends = r.values.Get(o.desc) != ""
	return o
}

// isSortable reports whether a column has comparable values: not buttons, and not the same link in each row.
func isSortable(t *service.Table, column int) bool {
	return t.Columns[column].Title != "" && !slices.ContainsFunc(t.Rows, func(row []service.Cell) bool {
		return column >= len(row) || len(row[column].Forms) > 0
	}) && slices.ContainsFunc(t.Rows, func(row []service.Cell) bool { return row[column].Text != t.Columns[column].Title })
}

// sorted returns the table with its rows, and the selection's keys, in order. Empty cells come last in both
// directions. The original table is not changed.
func (o *order) sorted(t *service.Table) *service.Table {
	if o == nil || o.column < 0 {
		return t
	}
	rows := make([]int, len(t.Rows))
	for i := range rows {
		rows[i] = i
	}
	compare := comparison(t, o.column)
	slices.SortStableFunc(rows, func(a, b int) int {
		x, y := &t.Rows[a][o.column], &t.Rows[b][o.column]
		if isNone(x) || isNone(y) {
			return boolOrder(isNone(x), isNone(y))
		}
		if o.descends {
			x, y = y, x
		}
		return compare(x, y)
	})
	in := *t
	in.Rows = permuted(t.Rows, rows)
	if t.Bulk != nil {
		b := *t.Bulk
		b.Keys, b.Names, in.Bulk = permuted(b.Keys, rows), permuted(b.Names, rows), &b
	}
	return &in
}

// permuted returns the elements in the order that the indexes at give.
func permuted[T any](all []T, at []int) []T {
	moved := make([]T, 0, len(all))
	for _, i := range at {
		moved = append(moved, all[i])
	}
	return moved
}

// boolOrder sorts false before true.
func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// severity is lists states in ascending order.
var severity = []service.State{"", service.OK, service.Warning, service.Wrong}

// comparison compares times, numbers with units if all values are numbers, or else states and texts.
func comparison(t *service.Table, column int) func(a, b *service.Cell) int {
	all := func(is func(*service.Cell) bool) bool {
		return !slices.ContainsFunc(t.Rows, func(row []service.Cell) bool { return !isNone(&row[column]) && !is(&row[column]) })
	}
	switch {
	case all(isTime):
		return func(a, b *service.Cell) int { return a.Time.Compare(b.Time) }
	case all(func(c *service.Cell) bool { _, ok := amountOf(c.Text); return ok && c.State == "" }):
		return func(a, b *service.Cell) int {
			x, _ := amountOf(a.Text)
			y, _ := amountOf(b.Text)
			return cmp.Compare(x, y)
		}
	}
	return func(a, b *service.Cell) int {
		return cmp.Or(cmp.Compare(slices.Index(severity, a.State), slices.Index(severity, b.State)),
			strings.Compare(strings.ToLower(a.Text), strings.ToLower(b.Text)), strings.Compare(a.Text, b.Text))
	}
}

// factors are the units of service.FormatBytes.
var factors = map[string]float64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50, "EiB": 1 << 60}

// amountOf parses a leading number with its unit, e.g. 1.5 MiB of 3.0 GiB, 12 objects, 80% or 1h30m.
func amountOf(text string) (float64, bool) {
	number, rest, _ := strings.Cut(text, " ")
	unit, _, _ := strings.Cut(rest, " ")
	number = strings.TrimSuffix(number, "%")
	if strings.Trim(number, "0123456789.+-") == "" {
		n, err := strconv.ParseFloat(number, 64)
		return n * cmp.Or(factors[unit], 1), err == nil
	}
	d, err := durations.Parse(number)
	return d.Seconds(), err == nil
}

// orderLink returns the link in a column's head: it sorts ascending, or descending if it is ascending now.
func (r *renderer) orderLink(o *order, column int, title string) string {
	desc := ""
	if o.column == column && !o.descends {
		desc = "1"
	}
	return r.self(slices.Collect(maps.Keys(r.values)), o.sort, title, o.desc, desc)
}
