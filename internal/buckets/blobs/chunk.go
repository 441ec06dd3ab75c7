package blobs

import (
	"context"
	"io"
	"sync"
	"sync/atomic"

	"holdfast/internal/buckets"
)

// chunkSize is the size of a buffer. A body of up to this size is in memory as a whole
// while it is written or read.
const chunkSize = buckets.ChunkSize

// chunk is a buffer for a frame with several readers. The last one returns it to the pool.
type chunk struct {
	bytes   [frameSize]byte
	n       int    // bytes of data
	layout  layout // framed: the trailer follows the data
	sum     uint64 // CRC64NVME of the data, once it is sealed or verified
	id      uint64 // of its frame, once that is verified
	holders atomic.Int32
}

var chunks = sync.Pool{New: func() any { return new(chunk) }}

// newChunk returns a chunk with one holder.
func newChunk() *chunk {
	c := chunks.Get().(*chunk)
	c.n, c.layout = 0, plain
	c.holders.Store(1)
	return c
}

func (c *chunk) data() []byte { return c.bytes[:c.n] }

// stored returns the chunk as it is in a copy.
func (c *chunk) stored() []byte { return c.bytes[:c.n+c.layout.trailer()] }

func (c *chunk) hold() { c.holders.Add(1) }

func (c *chunk) release() {
	if c.holders.Add(-1) == 0 {
		chunks.Put(c)
	}
}

// fill reads until the chunk is full of data. It is io.ReadFull, except that it does not replace
// the error of the reader: a client that hangs up is io.ErrUnexpectedEOF too.
func (c *chunk) fill(r io.Reader) (err error) {
	for c.n < chunkSize && err == nil {
		var n int
		n, err = r.Read(c.bytes[c.n:chunkSize])
		c.n += n
	}
	return err
}

// queue is a body as the driver of one node reads it: chunks that the writer sends. It
// ends when the writer closes feed, and fails when its context ends.
type queue struct {
	ctx     context.Context //nolint:containedctx // of the request
	feed    chan *chunk
	current *chunk
	offset  int
}

// Read implements io.Reader.
func (q *queue) Read(p []byte) (int, error) {
	if err := q.advance(); err != nil {
		return 0, err
	}
	n := copy(p, q.current.stored()[q.offset:])
	q.offset += n
	return n, nil
}

// WriteTo implements io.WriterTo, which saves a copy of each byte.
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

// advance waits until the current chunk has bytes that were not read.
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

// drain releases what the driver has not read.
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
