package blobs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/checksum"
	"holdfast/internal/errcode"
	"holdfast/internal/optional"
)

// queued is how many chunks a node may lag behind the fastest node.
const queued = buckets.WriteChunks - 2

// removeTimeout limits how long a copy from a failed write is removed in the background.
const removeTimeout = time.Minute

var errTooLarge = errcode.New(errcode.Invalid, "body is larger than was announced")

// Write sends chunks at the pace of the slowest node. If a node fails or stalls, another node gets the body:
// immediately if the body is in memory, otherwise as a copy at the end.
func (c *Cluster) Write(ctx context.Context, path string, size int64, copies int, src io.Reader) (buckets.Stored, error) {
	if err := CheckPath(path); err != nil {
		return buckets.Stored{}, err
	}
	if copies < 1 || copies > MaxCopies {
		return buckets.Stored{}, errcode.Newf(errcode.Invalid, "copies: expected 1 to %d", MaxCopies)
	}
	w := &write{c: c, ctx: ctx, path: path, size: size, copies: copies, id: rand.Uint64(), sum: checksum.NewCRC64()}
	w.src, _ = src.(buckets.Summed)
	first := newChunk()
	defer first.release()
	switch err := first.fill(src); {
	case size >= 0 && int64(first.n) > size:
		return buckets.Stored{}, errTooLarge
	case IsEnd(err):
		w.p = c.place(framed.size(int64(first.n)), copies)
		err = w.whole(first)
		return w.stored(), err
	case err != nil:
		return buckets.Stored{}, err
	}
	w.p = c.place(framed.size(max(size, 0)), copies)
	err := w.stream(first, src)
	return w.stored(), err
}

// write is a body on its way to several nodes.
type write struct {
	c      *Cluster
	ctx    context.Context //nolint:containedctx // the request's
	path   string
	size   int64 // limit for the source; -1 if unknown
	copies int   // wanted
	p      *placement
	src    buckets.Summed // computes checksums itself; may be nil
	id     uint64         // frame ID
	chunks int64          // sealed so far
	sum    checksum.CRC64
	total  int64     // stored bytes per copy
	done   []*member // nodes with a complete copy
	keep   bool      // copies stay even if the write fails
}

// stored returns the row's values after the write.
func (w *write) stored() buckets.Stored {
	s := buckets.Stored{Frames: buckets.Frames{ID: w.id, CRC64NVME: w.sum.Sum()}}
	for _, m := range w.done {
		s.Sharks = append(s.Sharks, m.id)
	}
	return s
}

// seal appends the trailer. The source must have returned exactly this chunk.
func (w *write) seal(c *chunk) {
	if c.n > 0 {
		c.sum = w.sumOf(c)
		c.seal(w.id, w.chunks)
		w.sum.Append(c.sum, int64(c.n))
		w.chunks++
	}
}

// sumOf derives a chunk's checksum from the source's checksum if possible.
func (w *write) sumOf(c *chunk) uint64 {
	if w.src != nil {
		if whole, ok := w.src.CRC64NVME(); ok {
			return w.sum.Next(whole, int64(c.n))
		}
	}
	return checksum.UpdateCRC64(0, c.data())
}

// put is a write to a node.
type put struct {
	node     *member
	queue    *queue // nil if the body is in memory
	cancel   context.CancelFunc
	finished chan struct{} // closed when the driver returned; err is valid then
	err      error
}

// start begins a put. It calls release when the driver no longer uses the body, possibly long after the request.
func (w *write) start(m *member, open func(context.Context) (body io.Reader, size int64, q *queue), release func(*queue)) *put {
	ctx, cancel := context.WithCancel(w.ctx)
	body, size, q := open(ctx)
	p := &put{node: m, queue: q, cancel: cancel, finished: make(chan struct{})}
	w.c.work.Go(func() {
		defer release(q)
		defer close(p.finished)
		_, p.err = m.driver.Put(ctx, w.path, body, size)
	})
	return p
}

// settleAll waits for all puts. The stall time limits the total wait.
func (w *write) settleAll(puts []*put) {
	ctx, cancel := context.WithTimeoutCause(w.ctx, w.c.Stall, errStalled)
	defer cancel()
	for _, p := range puts {
		w.settle(p, p.wait(ctx))
	}
}

// wait returns the driver's error, or the reason why ctx ended.
func (p *put) wait(ctx context.Context) error {
	select {
	case <-p.finished:
	case <-ctx.Done():
		select {
		case <-p.finished:
		default:
			return context.Cause(ctx)
		}
	}
	p.cancel()
	return p.err
}

// settle notes a put's result. A failed put is abandoned, and placement may choose another node.
func (w *write) settle(p *put, err error) {
	w.c.blame(w.ctx, p.node, err)
	if err != nil {
		if w.ctx.Err() == nil && !IsSourceError(err) {
			w.c.observe(p.node, WriteFailed)
		}
		w.p.failed(p.node, err)
		w.abandon(p)
		return
	}
	w.done = append(w.done, p.node)
	w.c.bad.Remove(badCopy{p.node.id, w.path})
	w.c.wrote(p.node, w.total)
}

// wrote counts the bytes, so that placement sees less free space before the next Refresh.
func (c *Cluster) wrote(m *member, size int64) {
	c.observe(m, Written)
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.space.Free >= 0 {
		m.space.Free = max(0, m.space.Free-size)
	}
}

// whole writes a body that is in memory. Any number of nodes may fail as long as others can take it.
func (w *write) whole(body *chunk) error {
	w.seal(body)
	w.total = int64(len(body.stored()))
	for len(w.done) < w.copies {
		nodes, err := w.p.next(w.ctx, w.copies-len(w.done))
		if err != nil {
			w.undo()
			return err
		}
		var puts []*put
		for _, m := range nodes {
			body.hold() // a stalled driver keeps reading
			puts = append(puts, w.start(m, func(context.Context) (io.Reader, int64, *queue) {
				return bytes.NewReader(body.stored()), w.total, nil
			}, func(*queue) { body.release() }))
		}
		w.settleAll(puts)
		if err := w.ctx.Err(); err != nil {
			w.undo()
			return err
		}
	}
	return nil
}

// stream writes a body while it arrives. Failed nodes are replaced at the end, by copies from a good node.
func (w *write) stream(first *chunk, src io.Reader) (err error) {
	nodes, err := w.p.next(w.ctx, w.copies)
	if err != nil {
		return err
	}
	var live []*put
	defer func() { // also on errors, and if the source panics
		for _, p := range live {
			w.abandon(p)
		}
		if err != nil {
			w.undo()
		}
	}()
	for _, m := range nodes {
		live = append(live, w.start(m, func(ctx context.Context) (io.Reader, int64, *queue) {
			q := &queue{ctx: ctx, feed: make(chan *chunk, queued)}
			return q, -1, q
		}, (*queue).drain))
	}
	first.hold()
	length := int64(first.n)
	for next, end := first, false; ; {
		w.seal(next)
		live = w.send(next, live)
		next.release()
		switch {
		case w.ctx.Err() != nil:
			return w.ctx.Err()
		case len(live) == 0:
			return w.none()
		case end:
			return w.finish(&live, length)
		}
		next = newChunk()
		err := next.fill(src)
		length += int64(next.n)
		switch {
		case w.size >= 0 && length > w.size:
			err = errTooLarge
		case IsEnd(err):
			end, err = true, nil
		}
		if err != nil {
			next.release()
			return err
		}
	}
}

// none returns the error if every node failed. Data that was already sent cannot be sent again.
func (w *write) none() error {
	return &errcode.Error{Code: errcode.Unavailable, Cause: w.p.failure, Message: "all storage nodes failed while the body was written; retry"}
}

// send returns the nodes that took the chunk. If several nodes stall at the same time, send waits for them only once.
func (w *write) send(next *chunk, live []*put) (kept []*put) {
	if next.n == 0 {
		return live
	}
	w.total += int64(len(next.stored()))
	wait := patience{}
	defer wait.end()
	for _, p := range live {
		next.hold()
		if err := w.feed(p, next, &wait); err != nil {
			next.release()
			w.settle(p, err)
			continue
		}
		kept = append(kept, p)
	}
	return kept
}

// patience limits the wait for nodes. It starts with the first wait.
type patience struct {
	ctx    context.Context //nolint:containedctx // begins later
	cancel context.CancelFunc
}

// begin starts the wait, or returns the wait that runs.
func (p *patience) begin(w *write) context.Context {
	if p.ctx == nil {
		p.ctx, p.cancel = context.WithTimeoutCause(w.ctx, w.c.Stall, errStalled)
	}
	return p.ctx
}

// end frees the timer.
func (p *patience) end() {
	if p.cancel != nil {
		p.cancel()
	}
}

// feed gives a chunk to a node, and waits while the node lags.
func (w *write) feed(p *put, next *chunk, wait *patience) error {
	select { // usually no timer is needed
	case p.queue.feed <- next:
		return nil
	default:
	}
	ctx := wait.begin(w)
	select {
	case p.queue.feed <- next:
		return nil
	case <-p.finished:
		return errors.Join(errEarly, p.err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errEarly = errcode.New(errcode.Unavailable, "storage node stopped in the middle of a body")

// finish ends all copies, and replaces nodes that failed.
func (w *write) finish(live *[]*put, length int64) error {
	for _, p := range *live {
		close(p.queue.feed)
	}
	puts := *live
	*live = nil
	w.settleAll(puts)
	switch {
	case w.ctx.Err() != nil:
		return w.ctx.Err()
	case len(w.done) == 0:
		return w.none()
	}
	body := buckets.Reference{Body: buckets.Body{Length: length, Frames: optional.Some(w.stored().Frames)}}
	added, err := w.c.replicate(w.ctx, copySet{w.path, &body, w.done}, w.p, w.copies-len(w.done))
	w.done = append(w.done, added...)
	return err
}

// undo removes complete copies after an error.
func (w *write) undo() {
	done := w.done
	w.done = nil
	for _, m := range done {
		w.c.removeLater(m, w.path)
	}
}

// abandon cancels a put. If it completes all the same, its copy is removed, unless keep.
func (w *write) abandon(p *put) {
	p.cancel()
	if w.keep {
		return
	}
	w.c.work.Go(func() {
		<-p.finished
		if p.err == nil {
			w.c.removeLater(p.node, w.path)
		}
	})
}

// removeLater ignores errors, because an audit finds the copy.
func (c *Cluster) removeLater(m *member, path string) {
	c.work.Go(func() {
		ctx, cancel := context.WithTimeout(c.ctx, removeTimeout)
		defer cancel()
		_ = m.driver.Delete(ctx, path)
	})
}
