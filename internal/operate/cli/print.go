package cli

import (
	"fmt"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
)

// printer prints rows: a line of JSON for each, or a table.
type printer struct {
	add func(operate.Row) error
	end func() error
}

func (c *command) newPrinter(columns []operate.Column) (*printer, error) {
	if c.asJSON {
		return &printer{func(r operate.Row) error { return c.sh.PrintLine(r.Value) }, func() error { return nil }}, nil
	}
	w := c.sh.Table()
	add := func(r operate.Row) error {
		cells := make([]any, len(r.Cells))
		for i, v := range r.Cells {
			cells[i] = cell(v)
		}
		return w.Row(cells...)
	}
	return &printer{add, w.Flush}, w.Row(titles(columns)...)
}

// cell returns a value as people read it. The title of its column names the time zone.
func cell(v any) any {
	at, ok := v.(time.Time)
	switch {
	case !ok:
		return v
	case at.IsZero():
		return ""
	}
	return at.UTC().Format(time.DateTime)
}

// titles returns the header of a table. The first column of times names the time zone.
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

// show prints the result of another operation than a list: JSON, the notice of a change, or facts and texts.
func (c *command) show(o *operate.Operation, r *operate.Result) error {
	if r.Note != "" {
		fmt.Fprintln(c.sh.Stderr, service.PrintableLines(r.Note))
	}
	if c.asJSON {
		return c.sh.PrintLine(r.JSON())
	}
	switch {
	case r.Notice != "" && o.Kind == operate.Job: // it may have several lines
		_, err := fmt.Fprintln(c.sh.Stdout, service.PrintableLines(r.Notice))
		return err
	case r.Notice != "":
		_, err := c.sh.Printf("%s\n", r.Notice)
		return err
	}
	row := &r.Rows[0]
	if r.HasSecret() && len(r.Columns) == 1 { // for scripts
		_, err := c.sh.Printf("%v\n", row.Cells[0])
		return err
	}
	w := c.sh.Table()
	for i, title := range titles(r.Columns) {
		if err := w.Row(title, cell(row.Cells[i])); err != nil {
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
	return nil
}
