package copying

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/internal/db/rows"
)

// Difference is an owner whose rows in a table differ.
type Difference struct {
	Table          string
	Owner          rows.Row // empty if it is the whole table
	Source, Target rows.Digest

	group *rows.Group
	table *rows.Table
}

func (d Difference) String() string {
	of := ""
	if len(d.Owner) > 0 {
		of = ", owner " + d.Owner.Text()
	}
	return fmt.Sprintf("%s%s: %d rows with the checksum %s in the source, %d with %s in the target",
		d.Table, of, d.Source.Rows, d.Source, d.Target.Rows, d.Target)
}

// Verify compares all owners and returns the source's row count. Rows that change while it runs differ.
func (c *Copy) Verify(ctx context.Context, report func(Difference)) (int64, error) {
	if err := c.open(); err != nil {
		return 0, err
	}
	return c.compare(ctx, nil, report)
}

// OwnerSet is a set of owners by table. The key is the owner's text.
type OwnerSet map[*rows.Table]map[string]rows.Row

// Add adds an owner to the tables' sets.
func (o OwnerSet) Add(owner rows.Row, tables ...*rows.Table) {
	text := owner.Text()
	for _, t := range tables {
		if o[t] == nil {
			o[t] = map[string]rows.Row{}
		}
		o[t][text] = owner
	}
}

// addAll adds the owners of another set.
func (o OwnerSet) addAll(of OwnerSet) {
	for t, all := range of {
		if o[t] == nil {
			o[t] = map[string]rows.Row{}
		}
		maps.Copy(o[t], all)
	}
}

// Spans returns a span for each owner that any table has, sorted.
func (o OwnerSet) Spans(tables ...*rows.Table) (spans []rows.Span) {
	all := map[string]rows.Row{}
	for _, t := range tables {
		maps.Copy(all, o[t])
	}
	for _, owner := range all {
		spans = append(spans, rows.Span{Only: owner})
	}
	slices.SortFunc(spans, func(a, b rows.Span) int { return a.Only.Compare(b.Only) })
	return spans
}

// affected returns the tables that may change with t. Counters are recomputed if an engine lacks them.
func (c *Copy) affected(g *rows.Group, t *rows.Table) []*rows.Table {
	if c.withNames() {
		return g.Tables
	}
	return []*rows.Table{t}
}

// compare compares the owners in only; nil means all owners. It calls report for each owner whose rows in a table
// differ, and returns the source's rows. Sums over many owners are compared first where the engines can compute them,
// so that only different ones are read.
func (c *Copy) compare(ctx context.Context, only OwnerSet, report func(Difference)) (total int64, err error) {
	if err := c.target.Settle(ctx); err != nil {
		return 0, err
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		for _, t := range g.Tables {
			spans := []rows.Span{rows.All}
			if only != nil {
				spans = only.Spans(t)
				if !c.withNames() {
					spans = ownersAtOnce(spans)
				}
			}
			if only != nil {
				n, different, err := c.compareSums(ctx, g, t, spans)
				if err != nil {
					return 0, err
				}
				total, spans = total+n, different
			}
			if len(spans) == 0 {
				continue
			}
			n, err := c.compareTable(ctx, g, t, spans, report)
			if err != nil {
				return 0, err
			}
			total += n
		}
	}
	return total, nil
}

// ownersOfQuery is how many owners a span names. PostgreSQL and SQLite limit parameters; more owners also make no
// query faster.
const ownersOfQuery = 200

// ownersAtOnce joins single owners into spans with many owners.
func ownersAtOnce(each []rows.Span) (spans []rows.Span) {
	for some := range slices.Chunk(each, ownersOfQuery) {
		var span rows.Span
		for _, owner := range some {
			span.Among = append(span.Among, owner.Only)
		}
		spans = append(spans, span)
	}
	return spans
}

// digest digests an owner's rows in a table.
type digest struct {
	owner rows.Row
	rows.Digest
}

// compareSums returns the spans whose sums differ, and the number of rows in the other spans. If the engines cannot
// compute equal sums, it returns all spans.
func (c *Copy) compareSums(ctx context.Context, g *rows.Group, t *rows.Table, spans []rows.Span) (total int64, different []rows.Span, err error) {
	if !c.isRaw(t) {
		return 0, spans, nil
	}
	var both errgroup.Group
	sums := [2][]rows.Digest{make([]rows.Digest, len(spans)), make([]rows.Digest, len(spans))}
	for side, db := range []rows.Database{c.source, c.target} {
		both.Go(func() error {
			return db.View(ctx, func(v rows.View) (err error) {
				for i, span := range spans {
					if sums[side][i], err = v.(rows.RawView).Sum(t, g.Owner, span); err != nil {
						return fmt.Errorf("%s: %w", t.Name, err)
					}
				}
				return nil
			})
		})
	}
	if err := both.Wait(); err != nil {
		return 0, nil, err
	}
	for i, span := range spans {
		if sums[0][i] == sums[1][i] {
			total += sums[0][i].Rows
		} else {
			different = append(different, span)
		}
	}
	return total, different, nil
}

// compareTable reads both sides at the same time, sorted by owner, and merges them: an owner may be missing on either
// side.
func (c *Copy) compareTable(ctx context.Context, g *rows.Group, t *rows.Table, spans []rows.Span, report func(Difference)) (total int64, err error) {
	var both errgroup.Group
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sides := [2]chan digest{make(chan digest, 64), make(chan digest, 64)}
	for i, db := range []rows.Database{c.source, c.target} {
		both.Go(func() error {
			defer close(sides[i])
			return db.View(ctx, func(v rows.View) error {
				return c.digests(v, t, g.Owner, spans, func(d digest) error {
					select {
					case sides[i] <- d:
						return nil
					case <-ctx.Done():
						return errEnded
					}
				})
			})
		})
	}
	next := func(i int) *digest {
		if d, ok := <-sides[i]; ok {
			return &d
		}
		return nil
	}
	a, b := next(0), next(1)
	for a != nil || b != nil {
		var order int
		switch {
		case b == nil:
			order = -1
		case a == nil:
			order = 1
		default:
			order = a.owner.Compare(b.owner)
		}
		d := Difference{Table: t.Name, group: g, table: t}
		if order <= 0 {
			d.Owner, d.Source, total = a.owner, a.Digest, total+a.Rows
			a = next(0)
		}
		if order >= 0 {
			d.Owner, d.Target = b.owner, b.Digest
			b = next(1)
		}
		if d.Source != d.Target {
			isReplaced, err := c.isReplaced(ctx, d)
			if err != nil {
				return 0, err
			}
			if !isReplaced {
				report(d)
			}
		}
		c.progress("rows compared", min(total, c.total), c.total)
	}
	return total, both.Wait()
}

// isReplaced reports whether the target, which names owners by texts, lacks the rows because the texts now belong to
// another owner.
func (c *Copy) isReplaced(ctx context.Context, d Difference) (bool, error) {
	if !c.to.NamesOwners || d.Target.Rows > 0 || len(d.Owner) == 0 {
		return false, nil
	}
	owners, err := c.Owners.Find(ctx, []int64{d.Owner[0].(int64)})
	return len(owners) == 1 && owners[0].Current != owners[0].Number, err
}

// errEnded ends the other side's read after an error. The first error is returned.
var errEnded = errors.New("the comparison has ended")

// digests calls fn with each owner's digest in the spans, in order. Where one engine names owners by texts, rows are
// reduced to their common columns first.
func (c *Copy) digests(v rows.View, t *rows.Table, owner int, spans []rows.Span, fn func(digest) error) error {
	s := summing{owner: owner, fn: fn}
	each := s.add
	if now, reduce := time.Now().UnixMilli(), t.Common(); c.withNames() && reduce != nil {
		each = func(p rows.Packed) error {
			if r := p.Row(); reduce(r, now) {
				return s.add(r.Pack(nil))
			}
			return nil
		}
	}
	for _, span := range spans {
		if err := v.Each(t, owner, span, each); err != nil {
			return err
		}
	}
	return s.end()
}

// summing adds up consecutive rows with the same owner.
type summing struct {
	owner   int // columns in the owner's key
	fn      func(digest) error
	current digest
	packed  rows.Packed // the current owner
}

// add adds a row. A new owner ends the previous digest.
func (s *summing) add(p rows.Packed) error {
	if owner := p.First(s.owner); s.current.Rows == 0 || !bytes.Equal(owner, s.packed) {
		if err := s.end(); err != nil {
			return err
		}
		s.packed = append(s.packed[:0], owner...)
		s.current = digest{owner: owner.Row()}
	}
	s.current.Add(p)
	return nil
}

// end passes on the last digest.
func (s *summing) end() error {
	if s.current.Rows == 0 {
		return nil
	}
	d := s.current
	s.current = digest{}
	return s.fn(d)
}
