package guest

// row prints a row: its JSON, or its columns.
type row func(view any, columns ...any) error

// list prints rows as a table with a header, or as a line of JSON for each.
func (c *command) list(asJSON bool, header []any, each func(row) error) error {
	if asJSON {
		return each(func(view any, _ ...any) error { return c.PrintLine(view) })
	}
	w := c.Table()
	if err := w.Row(header...); err != nil {
		return err
	}
	if err := each(func(_ any, columns ...any) error { return w.Row(columns...) }); err != nil {
		return err
	}
	return w.Flush()
}
