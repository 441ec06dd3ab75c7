package blobs

import (
	"context"
	"io"
	"sync"
	"sync/atomic"

	"holdfast/internal/buckets"
)

// chunkSize is also the limit up to which a body is held in memory as a whole.
const chunkSize = buckets.ChunkSize

// chunk is a reference-counted buffer. The last holder returns it to the pool.
type chunk struct {
	bytes   [frameSize]byte
	n       int
	layout  layout
	sum     uint64 // CRC64NVME, once sealed or verified
	id      uint64 // frame ID, once verified
	holders atomic.Int32
}

// chunks recycles chunks, because a body passes through many.
var chunks = sync.Pool{New: func() any { return new(chunk) }}

// newChunk returns an empty plain chunk with a single holder.
func newChunk() *chunk {
	c := chunks.Get().(*chunk)
	c.n, c.layout = 0, plain
	c.holders.Store(1)
	return c
}

// data returns the content.
func (c *chunk) data() []byte { return c.bytes[:c.n] }

// stored returns the content with its trailer, if it is framed.
func (c *chunk) stored() []byte { return c.bytes[:c.n+c.layout.trailer()] }

// hold adds a holder. Each holder calls release once, and must not use the chunk after that.
func (c *chunk) hold() { c.holders.Add(1) }

// release returns the chunk to the pool after the last holder.
func (c *chunk) release() {
	if c.holders.Add(-1) == 0 {
		chunks.Put(c)
	}
}

// fill is like io.ReadFull, but returns the reader's own error, because io.ErrUnexpectedEOF can also mean that a
// client hung up.
func (c *chunk) fill(r io.Reader) (err error) {
	for c.n < chunkSize && err == nil {
		var n int
		n, err = r.Read(c.bytes[c.n:chunkSize])
		c.n += n
	}
	return err
}

// queue is the body for a node's driver. It ends when the writer closes feed.
type queue struct {
	ctx     context.Context //nolint:containedctx // the request's
	feed    chan *chunk     // at most queued chunks; the writer waits when it is full
	current *chunk
	offset  int // bytes of current that were read
}

func (q *queue) Read(p []byte) (int, error) {
	if err := q.advance(); err != nil {
		return 0, err
	}
	n := copy(p, q.current.stored()[q.offset:])
	q.offset += n
	return n, nil
}

// WriteTo passes whole chunks to the driver, without another copy.
func (q *queue) WriteTo(w io.Writer) (total int64, err error) {
	for {
		if err := q.advance(); IsEnd(err) {
			return total, nil
		} else if err != nil {
			return total, err
		}
		n, err := w.Write(q.current.stored()[q.offset:])
		q.offset += n
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
}

// advance waits for a chunk with bytes to read. It ends with io.EOF when feed is closed, or with the context's error.
func (q *queue) advance() error {
	for q.current == nil || q.offset == len(q.current.stored()) {
		q.release()
		select {
		case <-q.ctx.Done():
			return q.ctx.Err()
		case next, open := <-q.feed:
			if !open {
				return io.EOF
			}
			q.current, q.offset = next, 0
		}
	}
	return nil
}

// release gives the current chunk back.
func (q *queue) release() {
	if q.current != nil {
		q.current.release()
		q.current = nil
	}
}

// drain gives all chunks back after the driver has returned. It does not wait for the writer.
func (q *queue) drain() {
	q.release()
	for {
		select {
		case c, open := <-q.feed:
			if !open {
				return
			}
			c.release()
		default:
			return
		}
	}
}
