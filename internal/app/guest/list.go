package guest

import (
	"holdfast/internal/app/service"
)

// row prints a row: its JSON, or its columns.
type row func(view any, columns ...any) error

// list prints rows as a table with a header, or as a line of JSON for each.
func (c *command) list(asJSON bool, header []any, each func(row) error) error {
	if asJSON {
		return each(func(view any, _ ...any) error { return c.PrintLine(view) })
	}
	w := c.Table()
	if err := printRow(w, header); err != nil {
		return err
	}
	if err := each(func(_ any, columns ...any) error { return printRow(w, columns) }); err != nil {
		return err
	}
	return w.Flush()
}

func printRow(w *service.Printer, columns []any) (err error) {
	for i, column := range columns {
		separator := "\t"
		if i == len(columns)-1 {
			separator = "\n"
		}
		if _, err = w.Printf("%v%s", column, service.Columns(separator)); err != nil {
			return err
		}
	}
	return err
}
