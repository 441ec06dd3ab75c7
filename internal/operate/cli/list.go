package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
)

// pageRows is the default for About.PageRows: few calls for long lists, and such a page fits easily into
// memory.
const pageRows = 500

// list prints rows, reading a paged list page by page until the end or the limit.
func (c *command) list(ctx context.Context, values map[string]string) error {
	limit := c.limit
	if c.all {
		limit = 0
	} else if c.cmd.Flags().Changed("limit") && limit < 1 {
		return service.Usagef("--limit: must be at least 1")
	}
	var p *printer
	for n := 0; ; {
		if c.IsPaged() {
			page := cmp.Or(c.PageRows, pageRows)
			if limit > 0 {
				page = min(page, limit-n)
			}
			values["limit"] = strconv.Itoa(page)
		}
		r, err := c.Run(ctx, values, nil)
		if err != nil {
			return c.typed(err)
		}
		if p == nil {
			if p, err = c.newPrinter(r.Columns); err != nil {
				return err
			}
		}
		if err := p.addAll(r.Rows); err != nil {
			return err
		}
		if n += len(r.Rows); r.Next == nil || n == limit {
			return c.end(p, r)
		}
		if ctx.Err() != nil {
			return operate.ErrStopped
		}
		values["after"] = fmt.Sprint(r.Next)
	}
}

// addAll aligns columns per page, because all rows may not fit into memory.
func (p *printer) addAll(rows []operate.Row) error {
	for _, row := range rows {
		if row.Note != "" && !slices.Contains(p.notes, row.Note) {
			p.notes = append(p.notes, row.Note)
		}
		if err := p.add(row); err != nil {
			return err
		}
	}
	return p.end()
}

// end prints the notes after the rows, and the value to continue with; last is the last page.
func (c *command) end(p *printer, last *operate.Result) error {
	if !c.asJSON {
		for _, note := range p.notes {
			fmt.Fprintln(c.sh.Stderr, service.PrintableLines(note))
		}
	}
	if c.asJSON && c.Resumes && last.Next != nil {
		return c.sh.PrintLine(map[string]any{"next": last.Next})
	}
	return c.more(last)
}

// more prints the value for --after on standard error.
func (c *command) more(last *operate.Result) error {
	if last.Next == nil || !c.Resumes || c.asJSON {
		return nil
	}
	_, err := fmt.Fprintf(c.sh.Stderr, "there may be more: continue with --after %s\n", service.Printable(fmt.Sprint(last.Next)))
	return err
}
