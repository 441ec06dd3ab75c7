package copying

import (
	"cmp"
	"context"

	"holdfast/internal/db/rows"
)

// TableSize is a table's number of rows.
type TableSize struct {
	Name string
	Rows int64
}

// DryRun checks everything that Run checks, and returns the source's rows by table. It changes nothing.
func (c *Copy) DryRun(ctx context.Context) (sizes []TableSize, err error) {
	if err := c.open(); err != nil {
		return nil, err
	}
	pending, err := c.Target.Pending(ctx)
	if err != nil {
		return nil, err
	}
	if len(pending) == 0 {
		if err := c.empty(ctx); err != nil {
			return nil, err
		}
	}
	if err := cmp.Or(c.writable(ctx), c.checkOwners(ctx)); err != nil {
		return nil, err
	}
	err = c.source.View(ctx, func(v rows.View) error {
		sizes = nil
		for _, g := range c.Groups {
			for _, t := range g.Tables {
				n, err := v.Count(t, 0)
				if err != nil {
					return err
				}
				sizes = append(sizes, TableSize{t.Name, n})
			}
		}
		return nil
	})
	return sizes, err
}
