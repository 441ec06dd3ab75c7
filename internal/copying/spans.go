package copying

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/internal/db/rows"
)

const (
	rowsOfFirstSpan = 10_000    // per table and snapshot, unless an owner has more
	rowsOfSpan      = 100_000   // maximum of later spans, unless an engine names owners by texts
	bytesOfSpan     = 256 << 20 // spans become smaller above this: long snapshots delay SQLite's checkpoints and PostgreSQL's vacuum

	keepLogEvery = 10 * time.Second

	// triesOfSpans limits restarts after the target asked to repeat a transaction whose rows must be reread.
	triesOfSpans = 5
)

// copiedSpan is an owner range that one snapshot reads.
type copiedSpan struct {
	group   *rows.Group
	span    rows.Span
	unclean bool          // the target may contain some of the rows
	next    State         // state to store with the last rows
	read    []rows.Digest // by table, once read; see Copy.digest
}

// copyOwners copies all owners that c.state does not have yet. It repeats spans whose transaction the target wants
// repeated.
func (c *Copy) copyOwners(ctx context.Context) error {
	for try := 1; ; try++ {
		if err := c.copySpans(ctx); !errors.Is(err, errAgain) || try == triesOfSpans {
			return err
		}
	}
}

// errAgain means that a transaction's rows were consumed and must be read again.
var errAgain = errors.New("the database asks to repeat the transaction")

// copySpans reads the next span and verifies the previous span while a span is written.
func (c *Copy) copySpans(ctx context.Context) error {
	readCtx, cancel := context.WithCancel(ctx)
	p, checks := newPipe(readCtx), newQueue()
	var reading errgroup.Group
	reading.Go(func() error {
		p.close(c.readSpans(readCtx, p))
		return nil
	})
	err := c.writeSpans(ctx, &receiver{pipe: p}, checks)
	cancel()
	_ = reading.Wait()
	return cmp.Or(err, checks.wait())
}

// readSpans reads a span after the other, each from its own snapshot, so that no snapshot lives long.
func (c *Copy) readSpans(ctx context.Context, p *pipe) error {
	unclean := true // later owners may be partly copied
	kept, limit := time.Now(), rowsOfFirstSpan
	for next := c.state; !next.Copied; unclean = false {
		if err := c.before("span"); err != nil {
			return err
		}
		s := copiedSpan{next: next, unclean: unclean}
		isRead, before := false, p.sent
		if err := c.source.View(ctx, func(v rows.View) error {
			if isRead {
				return errAgain
			}
			isRead = true
			return c.readSpan(v, &s, limit, p)
		}); err != nil {
			return err
		}
		next = s.next
		if !c.withNames() {
			limit = rowsOfNextSpan(limit, p.sent-before)
		}
		if time.Since(kept) < keepLogEvery {
			continue
		}
		kept = time.Now()
		if err := c.source.KeepLog(ctx, c.Service); err != nil {
			return err
		}
	}
	return nil
}

// rowsOfNextSpan doubles the span up to rowsOfSpan, or shrinks it to about bytesOfSpan.
func rowsOfNextSpan(before int, bytes int64) int {
	if bytes > bytesOfSpan {
		return max(int(int64(before)*bytesOfSpan/bytes), 1)
	}
	return min(2*before, rowsOfSpan)
}

// readSpan chooses a span with no more than limit rows for each table, unless an owner has more, and sends its rows.
func (c *Copy) readSpan(v rows.View, s *copiedSpan, limit int, p *pipe) error {
	g := &c.Groups[s.next.Group]
	s.group = g
	if s.next.After != "" {
		var err error
		if s.span.After, err = g.Tables[0].ParseKey(s.next.After); err != nil {
			return err
		}
	}
	if err := endSpan(v, g, &s.span, limit); err != nil {
		return err
	}
	switch {
	case s.span.Until != nil:
		s.next.After = s.span.Until.Text()
	case s.next.Group+1 < len(c.Groups):
		s.next.Group, s.next.After = s.next.Group+1, ""
	default:
		s.next.After, s.next.Copied = "", true
	}
	if err := p.send(piece{begins: s}); err != nil {
		return err
	}
	for _, t := range g.Tables {
		d, err := c.readTable(v, s, t, p)
		if err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		s.read = append(s.read, d)
	}
	return p.send(piece{ends: s})
}

// readTable sends a table's rows, and returns their digest if they will be checked.
func (c *Copy) readTable(v rows.View, s *copiedSpan, t *rows.Table, p *pipe) (d rows.Digest, err error) {
	out := sender{pipe: p, table: t}
	if c.isRaw(t) {
		raw := v.(rows.RawView)
		out.isRaw = true
		n, err := raw.Dump(&out, t, s.group.Owner, s.span)
		if err != nil || n == 0 {
			return d, err
		}
		out.rows = int(n)
		if err := out.flush(); err != nil || c.dirty == nil {
			return d, err
		}
		return raw.Sum(t, s.group.Owner, s.span)
	}
	if err := v.Each(t, s.group.Owner, s.span, func(p rows.Packed) error {
		if c.dirty != nil {
			d.Add(p)
		}
		return out.add(c.elsewhere(t, p))
	}); err != nil {
		return d, err
	}
	return d, out.flush()
}

// isRaw reports whether rows are passed and summed without decoding, because both databases use the same engine,
// which supports this. Views then implement rows.RawView.
func (c *Copy) isRaw(t *rows.Table) bool {
	return t.IsRaw() && c.from.IsRaw && c.to.IsRaw
}

// endSpan sets the last owner: the first that reaches limit rows in any table. It leaves Until nil if all remaining
// owners fit. Groups without owners are a single span.
func endSpan(v rows.View, g *rows.Group, span *rows.Span, limit int) error {
	if g.Owner == 0 {
		return nil
	}
	for _, t := range g.Tables {
		until, err := v.NthOwner(t, g.Owner, span.After, limit)
		if err != nil {
			return err
		}
		if until != nil && (span.Until == nil || until.Compare(span.Until) < 0) {
			span.Until = until
		}
	}
	return nil
}

// writeSpans writes spans as they arrive. A written span is checked while the next is written.
func (c *Copy) writeSpans(ctx context.Context, in *receiver, checks *queue) error {
	for {
		s, err := in.span()
		if s == nil || err != nil {
			return err
		}
		write := c.writeSpan
		if c.to.RowsOfUpdate > 0 {
			write = c.writeSpanAtOnce
		}
		if err := write(ctx, in, s); err != nil {
			return err
		}
		c.state = s.next
		if c.dirty == nil {
			continue
		}
		if err := checks.do(func() error { return c.check(ctx, s) }); err != nil {
			return err
		}
	}
}

// writeSpan streams rows into transactions of bytesOfUpdate. The state is stored with the last one: an interrupted
// span is deleted and copied again.
func (c *Copy) writeSpan(ctx context.Context, in *receiver, s *copiedSpan) error {
	for isFirst, ended := true, false; !ended; isFirst = false {
		var n int
		isBegun := false
		if err := c.target.Update(ctx, func(u rows.Update) (err error) {
			if isBegun {
				return errAgain
			}
			isBegun = true
			if isFirst && s.unclean {
				for _, t := range slices.Backward(s.group.Tables) {
					if err := u.Delete(t, s.group.Owner, s.span); err != nil {
						return fmt.Errorf("%s: %w", t.Name, err)
					}
				}
			}
			if n, ended, err = in.load(u); err != nil || !ended {
				return err
			}
			if err := c.recount(u, s.group, s.span); err != nil {
				return err
			}
			return c.setState(u, s.next)
		}); err != nil {
			return err
		}
		c.progressed(n)
	}
	return nil
}

// writeSpanAtOnce collects rows in memory, because the target gets a transaction at commit and may ask to repeat it.
func (c *Copy) writeSpanAtOnce(ctx context.Context, in *receiver, s *copiedSpan) error {
	w := c.newWriter(ctx)
	if s.unclean {
		w.deleteAll(s.group, s.span)
	}
	w.after = func(u rows.Update) error {
		if err := c.recount(u, s.group, s.span); err != nil {
			return err
		}
		return c.setState(u, s.next)
	}
	if err := in.each(w.add); err != nil {
		return err
	}
	return w.flush()
}

// progressed counts written rows.
func (c *Copy) progressed(n int) {
	c.moved += int64(n)
	total := max(c.total-c.copied, 0)
	c.progress("rows", min(c.moved, total), total)
}

// check compares the written rows with the digests of the rows read. If they differ, all owners are compared.
func (c *Copy) check(ctx context.Context, s *copiedSpan) error {
	var different []*rows.Table
	if err := c.target.View(ctx, func(v rows.View) error {
		different = nil
		for i, t := range s.group.Tables {
			d, err := c.sum(v, s, t)
			if err != nil {
				return fmt.Errorf("%s: %w", t.Name, err)
			}
			if d != s.read[i] {
				different = append(different, t)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for _, t := range different {
		if _, err := c.compareTable(ctx, s.group, t, []rows.Span{s.span}, func(d Difference) { c.dirty.Add(d.Owner, t) }); err != nil {
			return err
		}
	}
	return nil
}

// sum digests a span's rows, computed by the database if possible.
func (c *Copy) sum(v rows.View, s *copiedSpan, t *rows.Table) (d rows.Digest, err error) {
	if c.isRaw(t) {
		return v.(rows.RawView).Sum(t, s.group.Owner, s.span)
	}
	return d, v.Each(t, s.group.Owner, s.span, func(p rows.Packed) error { d.Add(p); return nil })
}

// queue runs functions one after the other beside the caller. It ends with the first error.
type queue struct {
	group errgroup.Group
	work  chan func() error
	ended chan struct{}
	err   error
}

// newQueue starts the queue; wait must be called.
func newQueue() *queue {
	q := &queue{work: make(chan func() error), ended: make(chan struct{})}
	q.group.Go(func() error {
		defer close(q.ended)
		for fn := range q.work {
			if q.err = fn(); q.err != nil {
				break
			}
		}
		return q.err
	})
	return q
}

// do waits until the previous function has ended, and returns an earlier function's error.
func (q *queue) do(fn func() error) error {
	select {
	case q.work <- fn:
		return nil
	case <-q.ended:
		return q.err
	}
}

// wait waits for the last function.
func (q *queue) wait() error {
	close(q.work)
	return q.group.Wait()
}
