package blobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
)

// ErrCorrupt means a wrong checksum or length.
var ErrCorrupt = errors.New("the body does not match its checksum")

// Replicate copies a body to n more nodes. It skips the nodes in have.
func (c *Cluster) Replicate(ctx context.Context, path string, body buckets.Reference, n int, have []string) ([]string, error) {
	from, err := c.copies(body.Sharks)
	if err != nil {
		return nil, err
	}
	exclude, _ := c.copies(have)
	p := c.place(StoredSize(&body.Body), n)
	p.exclude(exclude)
	p.exclude(from)
	added, err := c.replicate(ctx, copySet{path, &body, from}, p, n)
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

// Restore writes a copy to a node and replaces any existing copy. The node itself may also be in body.Sharks, for
// chunks that are good nowhere else.
func (c *Cluster) Restore(ctx context.Context, path string, body buckets.Reference, node string) error {
	to, err := c.member(node)
	if err != nil {
		return err
	}
	from, err := c.copies(body.Sharks)
	if err != nil {
		return err
	}
	// The row names the node, so a late copy is kept. It may have replaced the only copy.
	err = c.copyTo(ctx, copySet{path, &body, from}, to, true)
	c.blame(ctx, to, err)
	if err == nil {
		c.bad.Remove(badCopy{to.id, path})
		c.wrote(to, StoredSize(&body.Body))
	}
	return err
}

// copySet is a body with the nodes that hold it.
type copySet struct {
	path string
	body *buckets.Reference
	on   []*member
}

// replicate copies a body to n more nodes. After an error, it returns the nodes that succeeded.
func (c *Cluster) replicate(ctx context.Context, of copySet, p *placement, n int) (added []*member, err error) {
	for len(added) < n {
		nodes, err := p.next(ctx, 1)
		if err != nil {
			return added, err
		}
		m := nodes[0]
		err = c.copyTo(ctx, of, m, false)
		c.blame(ctx, m, err)
		switch {
		case err == nil:
			added = append(added, m)
			c.bad.Remove(badCopy{m.id, of.path})
			c.wrote(m, StoredSize(&of.body.Body))
		case ctx.Err() != nil, IsSourceError(err):
			return added, err
		default:
			p.failed(m, err)
		}
	}
	return added, nil
}

// copyTo copies chunks with their trailers, so that damage on the way is detected. With keep, a copy completed after
// copyTo gave up stays.
func (c *Cluster) copyTo(ctx context.Context, from copySet, to *member, keep bool) error {
	r := c.newReading(ctx, from, 0, chunkCount(from.body.Length))
	defer r.drop()
	w := &write{c: c, ctx: ctx, path: from.path, copies: 1, p: c.place(StoredSize(&from.body.Body), 1), keep: keep}
	return w.single(to, r)
}

// single writes a copy to a node from other copies. The first chunk is read before the node is used, so a lost body
// costs no file.
func (w *write) single(to *member, from *reading) error {
	var next *chunk
	read := func() (err error) {
		next = nil
		if from.at == from.to {
			return nil
		}
		if next, err = from.next(); err != nil {
			return SourceError(err)
		}
		next.convert(&from.body.Body, from.at-1)
		return nil
	}
	if err := read(); err != nil {
		return err
	}
	p := w.start(to, func(ctx context.Context) (io.Reader, int64, *queue) {
		q := &queue{ctx: ctx, feed: make(chan *chunk, queued)}
		return q, StoredSize(&from.body.Body), q
	}, (*queue).drain)
	for next != nil {
		live := w.send(next, []*put{p})
		next.release()
		if len(live) == 0 {
			return w.p.failure
		}
		if err := read(); err != nil {
			w.abandon(p)
			return err
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

// Pace waits until n bytes may be read from a node.
type Pace func(ctx context.Context, n int) error

// Verified is the result for a good copy.
type Verified struct {
	Framed bool
	Frames buckets.Frames // ID is 0 if the copy has no frames
}

// Verify returns ErrCorrupt for a bad copy and errcode.NotFound for a missing copy, without reporting a finding. A
// good copy is Unframed if the copy or its row has no frames. pace, if not nil, is called before each chunk.
func (c *Cluster) Verify(ctx context.Context, path string, body buckets.Reference, node string, pace Pace) (Verified, error) {
	m, err := c.member(node)
	if err != nil {
		return Verified{}, err
	}
	v := verifier{layout: layoutOf(&body.Body), body: body.Body}
	whole, err := c.readWhole(ctx, m, path, v, pace)
	if errors.Is(err, errLayout) {
		v.layout = v.layout.other()
		whole, err = c.readWhole(ctx, m, path, v, pace)
	}
	if right := v.layout.size(body.Length); err == nil && whole.size != right {
		err = errcode.Wrap(errcode.Internal, fmt.Sprintf("storage node %s: the copy has %d bytes, expected %d", node, whole.size, right), errors.Join(ErrCorrupt, errTruncated))
	}
	if errors.Is(err, ErrCorrupt) || errcode.Is(err, errcode.NotFound) {
		c.bad.Add(badCopy{m.id, path}, struct{}{})
	}
	return Verified{Framed: v.layout == framed, Frames: buckets.Frames{ID: whole.id, CRC64NVME: whole.crc64}}, err
}

// whole is the result when a complete copy was read.
type whole struct {
	sums  []uint64 // per chunk
	crc64 uint64
	id    uint64 // frame ID
	size  int64  // stored bytes
}

// readWhole reads and verifies every chunk of a copy. An empty body only needs its file.
func (c *Cluster) readWhole(ctx context.Context, m *member, path string, v verifier, pace Pace) (w whole, err error) {
	count := chunkCount(v.body.Length)
	if count == 0 {
		info, err := c.Stat(ctx, m.id, path)
		return whole{size: info.Size}, err
	}
	s := c.openSource(ctx, m, path, v, span{0, count})
	defer s.close()
	sum := newSum(&v.body)
	for range count {
		if pace != nil {
			if err := pace(ctx, frameSize); err != nil {
				return w, err
			}
		}
		next, size, err := s.next(ctx, c.ReadStall)
		if err != nil {
			return w, err
		}
		sum.add(next)
		other := len(w.sums) > 0 && v.layout == framed && next.id != w.id
		w.sums, w.id, w.size = append(w.sums, next.sum), next.id, size
		next.release()
		if other {
			return w, errFrame
		}
	}
	w.crc64 = sum.crc64.Sum()
	return w, sum.check()
}

// Copy duplicates a body on its nodes without reading it. If a node does not support this, Copy returns
// errors.ErrUnsupported and leaves nothing behind.
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

// Walk lists the files on a node, see Driver.
func (c *Cluster) Walk(ctx context.Context, node, after string) iter.Seq2[Info, error] {
	m, err := c.member(node)
	if err != nil {
		return func(yield func(Info, error) bool) { yield(Info{}, err) }
	}
	return m.driver.Walk(ctx, after)
}

// Stat returns errcode.NotFound if the node works but lacks the body.
func (c *Cluster) Stat(ctx context.Context, node, path string) (Info, error) {
	m, err := c.member(node)
	if err != nil {
		return Info{}, err
	}
	info, err := within(ctx, c, c.Stall, func(ctx context.Context) (Info, error) { return m.driver.Stat(ctx, path) })
	c.blame(ctx, m, err)
	return info, err
}

// Ping reports whether a node responds within ReadStall.
func (c *Cluster) Ping(ctx context.Context, node string) error {
	m, err := c.member(node)
	if err != nil {
		return err
	}
	_, err = within(ctx, c, c.ReadStall, func(ctx context.Context) (Space, error) { return m.driver.Space(ctx) })
	c.blame(ctx, m, err)
	return err
}
