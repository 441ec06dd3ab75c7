package cli

import (
	"fmt"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
)

// printer prints a list, as JSON lines or as a table.
type printer struct {
	notes []string // distinct notes, printed after the rows
	add   func(operate.Row) error
	end   func() error // flushes the table, which aligns its columns
}

// newPrinter also prints the table's head.
func (c *command) newPrinter(columns []operate.Column) (*printer, error) {
	if c.asJSON {
		return &printer{add: func(r operate.Row) error { return c.sh.PrintLine(r.Value) }, end: func() error { return nil }}, nil
	}
	w := c.sh.Table()
	return &printer{add: func(r operate.Row) error { return c.row(w, r) }, end: w.Flush}, w.Row(titles(columns)...)
}

// row prints a row's cells.
func (c *command) row(w *service.Printer, r operate.Row) error {
	cells := make([]any, len(r.Cells))
	for i, v := range r.Cells {
		cells[i] = c.cell(v)
	}
	return w.Row(cells...)
}

// cell returns a value as the command prints it: times in UTC, and sizes rounded only on a terminal, because scripts
// need all digits.
func (c *command) cell(v any) any {
	switch v := v.(type) {
	case time.Time:
		if v.IsZero() {
			return ""
		}
		return v.UTC().Format(time.DateTime)
	case operate.Share:
		return c.cell(v.Value)
	case service.Rounded:
		if c.sh.OnTerminal() {
			return v.Rounded()
		}
	}
	return v
}

// titles returns the table's head in upper case. Only the first column with times names the zone.
func titles(columns []operate.Column) (all []any) {
	zone := " (UTC)"
	for _, c := range columns {
		title := strings.ToUpper(c.Title)
		if c.IsTime() {
			title, zone = title+zone, ""
		}
		all = append(all, title)
	}
	return all
}

// withoutAside leaves out the columns that only JSON shows.
func withoutAside(all []operate.Column, cells []any) (columns []operate.Column, kept []any) {
	for i, c := range all {
		if !c.Aside {
			columns, kept = append(columns, c), append(kept, cells[i])
		}
	}
	return columns, kept
}

// show prints a result: JSON, the notice, a secret alone, or facts with texts and
// tables.
func (c *command) show(r *operate.Result) error {
	if r.Note != "" {
		fmt.Fprintln(c.sh.Stderr, service.PrintableLines(r.Note))
	}
	if c.asJSON {
		return c.sh.PrintLine(r.JSON())
	}
	switch {
	case r.Notice != "" && c.Kind == operate.Job: // may be multiline
		_, err := fmt.Fprintln(c.sh.Stdout, service.PrintableLines(r.Notice))
		return err
	case r.Notice != "":
		_, err := c.sh.Printf("%s\n", r.Notice)
		return err
	}
	row := &r.Rows[0]
	r.Columns, row.Cells = withoutAside(r.Columns, row.Cells)
	if r.HasSecret() && len(r.Columns) == 1 {
		_, err := c.sh.Printf("%v\n", row.Cells[0])
		return err
	}
	w := c.sh.Table()
	for i, title := range titles(r.Columns) {
		if err := w.Row(title, c.cell(row.Cells[i])); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, text := range row.Texts {
		if _, err := fmt.Fprintf(c.sh.Stdout, "\n%s\n%s\n", strings.ToUpper(text.Title), service.PrintableLines(text.Body)); err != nil {
			return err
		}
	}
	return c.tables(row)
}

// tables prints a read's nested tables.
func (c *command) tables(row *operate.Row) error {
	for _, t := range row.Tables {
		w := c.sh.Table()
		w.Printf("\n%s\n", strings.ToUpper(t.Title))
		if len(t.Rows) == 0 {
			w.Printf("%s\n", t.Empty)
		} else if err := w.Row(titles(t.Columns)...); err != nil {
			return err
		}
		for _, r := range t.Rows {
			if err := c.row(w, r); err != nil {
				return err
			}
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}
