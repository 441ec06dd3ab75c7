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

var chunks = sync.Pool{New: func() any { return new(chunk) }}

func newChunk() *chunk {
	c := chunks.Get().(*chunk)
	c.n, c.layout = 0, plain
	c.holders.Store(1)
	return c
}

func (c *chunk) data() []byte { return c.bytes[:c.n] }

func (c *chunk) stored() []byte { return c.bytes[:c.n+c.layout.trailer()] }

func (c *chunk) hold() { c.holders.Add(1) }

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
	feed    chan *chunk
	current *chunk
	offset  int
}

func (q *queue) Read(p []byte) (int, error) {
	if err := q.advance(); err != nil {
		return 0, err
	}
	n := copy(p, q.current.stored()[q.offset:])
	q.offset += n
	return n, nil
}

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

func (q *queue) release() {
	if q.current != nil {
		q.current.release()
		q.current = nil
	}
}

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
