package blobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"holdfast/internal/buckets"
	"holdfast/internal/fault"
	"holdfast/internal/optional"
)

// ErrCorrupt is in the chain of the error of a body that does not match its checksum or
// its length.
var ErrCorrupt = errors.New("the body does not match its checksum")

// Replicate copies a body to n more nodes and returns them. b.Sharks are the nodes to copy
// from. Nodes that have a copy, even a bad one, are not chosen.
func (c *Cluster) Replicate(ctx context.Context, path string, b buckets.Body, n int, have []string) ([]string, error) {
	var from, exclude []*member
	for _, id := range b.Sharks {
		m, err := c.member(id)
		if err != nil {
			return nil, err
		}
		from = append(from, m)
	}
	for _, id := range have {
		if m, err := c.member(id); err == nil {
			exclude = append(exclude, m)
		}
	}
	p := c.place(b.Length, n)
	p.exclude(exclude)
	p.exclude(from)
	added, err := c.replicate(ctx, path, b.Length, b.MD5, from, p, n)
	if err != nil {
		for _, m := range added {
			c.removeLater(m, path)
		}
		return nil, err
	}
	var ids []string
	for _, m := range added {
		ids = append(ids, m.id)
	}
	return ids, nil
}

// Restore copies a body to one node, and replaces the copy that it has, if any. b.Sharks
// are the nodes to copy from.
func (c *Cluster) Restore(ctx context.Context, path string, b buckets.Body, node string) error {
	to, err := c.member(node)
	if err != nil {
		return err
	}
	var from []*member
	for _, id := range b.Sharks {
		m, err := c.member(id)
		if err != nil {
			return err
		}
		from = append(from, m)
	}
	err = c.copyTo(ctx, path, b.Length, b.MD5, from, to)
	c.blame(ctx, to, err)
	if err == nil {
		c.bad.Remove(badCopy{to.id, path})
		c.wrote(to, b.Length)
	}
	return err
}

// replicate copies a body to n nodes of a placement. On an error it returns those that
// have it.
func (c *Cluster) replicate(ctx context.Context, path string, size int64, md5 []byte, from []*member, p *placement, n int) (added []*member, err error) {
	for len(added) < n {
		nodes, err := p.next(ctx, 1)
		if err != nil {
			return added, err
		}
		m := nodes[0]
		err = c.copyTo(ctx, path, size, md5, from, m)
		c.blame(ctx, m, err)
		switch {
		case err == nil:
			added = append(added, m)
			c.bad.Remove(badCopy{m.id, path})
			c.wrote(m, size)
		case ctx.Err() != nil, IsSourceError(err):
			return added, err
		default:
			p.failed(m, err)
		}
	}
	return added, nil
}

// copyTo copies a body to one node. The reader returns an error before the end if the
// body is wrong, so that no wrong copy is made.
func (c *Cluster) copyTo(ctx context.Context, path string, size int64, md5 []byte, from []*member, to *member) error {
	r, err := c.read(ctx, path, buckets.Body{Length: size, MD5: md5}, from, 0, size)
	if err != nil {
		return SourceError(err)
	}
	defer func() { _ = r.Close() }()
	w := &write{c: c, ctx: ctx, path: path, size: size, copies: 1, p: c.place(size, 1)}
	return w.single(to, r)
}

// single streams a body to one node.
func (w *write) single(to *member, src io.Reader) error {
	p := w.start(to, func(ctx context.Context) (io.Reader, int64, *queue) {
		q := &queue{ctx: ctx, feed: make(chan *chunk, queued)}
		return q, w.size, q
	}, (*queue).drain)
	for {
		next := newChunk()
		readErr := next.fill(src)
		if readErr != nil && !IsEnd(readErr) {
			next.release()
			w.abandon(p)
			return SourceError(readErr)
		}
		live := w.send(next, []*put{p})
		next.release()
		if len(live) == 0 {
			return w.p.failure
		}
		if IsEnd(readErr) {
			break
		}
	}
	close(p.queue.feed)
	ctx, cancel := context.WithTimeoutCause(w.ctx, w.c.Stall, errStalled)
	defer cancel()
	err := p.wait(ctx)
	if err != nil {
		w.abandon(p)
	}
	return err
}

// Verify reads one copy of a body whole and compares its MD5. It returns nil if the copy is good, ErrCorrupt if
// it is not, and an error with fault.NotFound if it is missing.
func (c *Cluster) Verify(ctx context.Context, path string, b buckets.Body, node string) error {
	m, err := c.member(node)
	if err != nil {
		return err
	}
	info, err := c.Stat(ctx, node, path)
	switch {
	case err != nil:
		return err
	case info.Size != b.Length:
		return fault.Wrap(fault.Internal, fmt.Sprintf("storage node %s: the copy has %d bytes, expected %d", node, info.Size, b.Length), ErrCorrupt)
	}
	b.CRC32C = optional.Of[uint32]{} // other readers compare it
	r, err := c.read(ctx, path, b, []*member{m}, 0, b.Length)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r)
	return errors.Join(err, r.Close())
}

// Copy makes a body available at another path on the same nodes, if all of them can do
// that without reading it. Otherwise it returns an error with errors.ErrUnsupported in
// its chain, and leaves nothing behind.
func (c *Cluster) Copy(ctx context.Context, from, to string, sharks []string) error {
	var done []*member
	for _, id := range sharks {
		m, err := c.member(id)
		if err == nil {
			_, err = within(ctx, c, c.Stall, func(ctx context.Context) (struct{}, error) {
				return struct{}{}, m.driver.Copy(ctx, from, to)
			})
		}
		if err != nil {
			for _, m := range done {
				c.removeLater(m, to)
			}
			return err
		}
		done = append(done, m)
	}
	return nil
}

// Walk returns the files of a node; see Driver.
func (c *Cluster) Walk(ctx context.Context, node, after string) iter.Seq2[Info, error] {
	m, err := c.member(node)
	if err != nil {
		return func(yield func(Info, error) bool) { yield(Info{}, err) }
	}
	return m.driver.Walk(ctx, after)
}

// Stat returns the size and time of a copy.
func (c *Cluster) Stat(ctx context.Context, node, path string) (Info, error) {
	m, err := c.member(node)
	if err != nil {
		return Info{}, err
	}
	info, err := within(ctx, c, c.Stall, func(ctx context.Context) (Info, error) { return m.driver.Stat(ctx, path) })
	c.blame(ctx, m, err)
	return info, err
}

// Ping returns an error if a node does not work now.
func (c *Cluster) Ping(ctx context.Context, node string) error {
	m, err := c.member(node)
	if err != nil {
		return err
	}
	_, err = within(ctx, c, c.ReadStall, func(ctx context.Context) (Space, error) { return m.driver.Space(ctx) })
	c.blame(ctx, m, err)
	return err
}
