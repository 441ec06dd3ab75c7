package copying

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"holdfast/internal/db/rows"
)

// recount corrects a span's counters in the target, unless the source names owners by texts.
func (c *Copy) recount(u rows.Update, g *rows.Group, span rows.Span) error {
	if !c.from.NamesOwners || c.to.NamesOwners {
		return nil
	}
	for _, t := range g.Tables {
		if t.Recount == "" {
			continue
		}
		if err := u.Recount(t, g.Owner, span); err != nil {
			return err
		}
	}
	return nil
}

// copyAgain replaces all these owners' rows in the target, each owner from a snapshot.
func (c *Copy) copyAgain(ctx context.Context, only OwnerSet) error {
	for i := range c.Groups {
		g := &c.Groups[i]
		for _, span := range only.Spans(g.Tables...) {
			if err := c.source.View(ctx, func(v rows.View) error {
				w := c.newWriter(ctx)
				w.after = func(u rows.Update) error { return c.recount(u, g, span) }
				if err := w.replace(v, g, span); err != nil {
					return err
				}
				return w.flush()
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// writer collects rows and deletions for a transaction, which it may repeat as the target asks.
type writer struct {
	c           *Copy
	update      func(func(rows.Update) error) error
	put         bool                    // replace existing rows instead of inserting
	silent      bool                    // do not count rows for the progress
	after       func(rows.Update) error // called before the last transaction ends
	parts       []*part                 // in execution order
	rows, bytes int
}

// part is a deletion, or a table's rows.
type part struct {
	table  *rows.Table
	owner  int        // columns in the span's key
	delete *rows.Span // rows to delete before; nil: none
	put    bool
	rows   rows.Batch
}

// newWriter writes to the target.
func (c *Copy) newWriter(ctx context.Context) *writer {
	return &writer{
		c: c, update: func(fn func(rows.Update) error) error { return c.target.Update(ctx, fn) },
	}
}

// delete adds a span to delete.
func (w *writer) delete(t *rows.Table, owner int, span rows.Span) {
	w.parts = append(w.parts, &part{table: t, owner: owner, delete: &span})
}

// deleteAll deletes a span in a group's tables, foreign key children first.
func (w *writer) deleteAll(g *rows.Group, span rows.Span) {
	for _, t := range slices.Backward(g.Tables) {
		w.delete(t, g.Owner, span)
	}
}

// replace replaces a span's rows in the target by those in the snapshot v.
func (w *writer) replace(v rows.View, g *rows.Group, span rows.Span) error {
	w.deleteAll(g, span)
	for _, t := range g.Tables {
		if err := v.Each(t, g.Owner, span, func(p rows.Packed) error { return w.add(t, p) }); err != nil {
			return err
		}
	}
	return nil
}

// add adds a row, and writes the transaction if it is large enough. after is not called then.
func (w *writer) add(t *rows.Table, p rows.Packed) error {
	if n := len(w.parts); n == 0 || w.parts[n-1].table != t || w.parts[n-1].put != w.put {
		w.parts = append(w.parts, &part{table: t, put: w.put})
	}
	p = w.c.elsewhere(t, p)
	last := &w.parts[len(w.parts)-1].rows
	w.bytes -= last.Bytes()
	last.Add(p)
	w.bytes += last.Bytes()
	w.rows++
	if w.rows < cmp.Or(w.c.to.RowsOfUpdate, rowsOfUpdate) && w.bytes < bytesOfBatch {
		return nil
	}
	after := w.after
	w.after = nil
	err := w.flush()
	w.after = after
	return err
}

// flush writes everything in a transaction and calls after.
func (w *writer) flush() error {
	if len(w.parts) == 0 && w.after == nil {
		return nil
	}
	if err := w.update(w.write); err != nil {
		return err
	}
	for _, p := range w.parts {
		p.rows.Free()
	}
	if !w.silent {
		w.c.progressed(w.rows)
	}
	w.parts, w.rows, w.bytes = nil, 0, 0
	return nil
}

// elsewhere changes values that another engine stores differently.
func (c *Copy) elsewhere(t *rows.Table, p rows.Packed) rows.Packed {
	change := t.Elsewhere()
	if !c.from.NamesOwners || c.to.NamesOwners || change == nil {
		return p
	}
	r := p.Row()
	change(r)
	return r.Pack(nil)
}

// write is the transaction; the target may call it several times.
func (w *writer) write(u rows.Update) error {
	for _, p := range w.parts {
		if p.delete != nil {
			if err := u.Delete(p.table, p.owner, *p.delete); err != nil {
				return fmt.Errorf("%s: %w", p.table.Name, err)
			}
		}
		if p.rows.Len() == 0 {
			continue
		}
		var err error
		if p.put {
			err = u.Put(p.table, &p.rows)
		} else {
			err = u.Insert(p.table, p.rows.Reader())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.table.Name, err)
		}
	}
	if w.after != nil {
		return w.after(u)
	}
	return nil
}

// copyChanged writes foreign key parents first and deletes them last.
func (c *Copy) copyChanged(ctx context.Context, v rows.View, p changedKeys) error {
	w := c.newWriter(ctx)
	w.silent = true
	gone := map[string][]rows.Row{}
	for g := range c.Groups {
		for _, t := range c.Groups[g].Tables {
			if err := c.replace(v, w, t, p.whole[t.Name]); err != nil {
				return err
			}
			var err error
			if gone[t.Name], err = c.put(v, w, t, p.rows[t.Name]); err != nil {
				return err
			}
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	if err := c.remove(ctx, gone); err != nil || !c.from.NamesOwners {
		return err
	}
	return c.target.Update(ctx, func(u rows.Update) error {
		for g := range c.Groups {
			for _, span := range p.owners.Spans(c.Groups[g].Tables...) {
				if err := c.recount(u, &c.Groups[g], span); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// remove deletes rows that the source no longer has, foreign key children first.
func (c *Copy) remove(ctx context.Context, gone map[string][]rows.Row) error {
	return c.target.Update(ctx, func(u rows.Update) error {
		for _, g := range slices.Backward(c.Groups) {
			for _, t := range slices.Backward(g.Tables) {
				if len(gone[t.Name]) == 0 {
					continue
				}
				if err := u.Remove(t, gone[t.Name]); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// replace adds the rows below key prefixes to the writer, after their deletion.
func (c *Copy) replace(v rows.View, w *writer, t *rows.Table, keys map[string]rows.Row) error {
	byLength := map[int][]rows.Span{}
	for _, key := range keys {
		byLength[len(key)] = append(byLength[len(key)], rows.Span{Only: key})
	}
	for n, spans := range byLength {
		if !c.withNames() {
			spans = ownersAtOnce(spans)
		}
		for _, span := range spans {
			w.delete(t, n, span)
			if err := v.Each(t, n, span, func(p rows.Packed) error { return w.add(t, p) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// put adds the current rows with these keys to the writer. gone are the keys that the snapshot does not have.
func (c *Copy) put(v rows.View, w *writer, t *rows.Table, keys map[string]rows.Row) (gone []rows.Row, err error) {
	w.put = true
	defer func() { w.put = false }()
	present := map[string]bool{}
	for some := range slices.Chunk(slices.Collect(maps.Values(keys)), 500) {
		if err := v.Find(t, some, func(p rows.Packed) error {
			present[p.First(t.Key).Row().Text()] = true
			return w.add(t, p)
		}); err != nil {
			return nil, err
		}
	}
	for text, key := range keys {
		if !present[text] {
			gone = append(gone, key)
		}
	}
	return gone, nil
}
