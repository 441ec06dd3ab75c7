package blobs

import (
	"bufio"
	"errors"
	"io"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
)

// NewCopy returns a body in the format stored on nodes. from is the content, or a copy from another node. Read
// returns ErrCorrupt if the content does not match the row.
func NewCopy(b *buckets.Body, from io.ReadCloser) io.ReadCloser {
	return &copyReader{body: b, from: from, in: bufio.NewReaderSize(from, 4<<10), sum: newSum(b), chunk: newChunk()}
}

// copyReader converts a copy to the layout of the row while it verifies it: plain to framed, or the reverse.
type copyReader struct {
	body   *buckets.Body
	from   io.Closer
	in     *bufio.Reader
	layout layout
	sum    *sum
	chunk  *chunk
	rest   []byte // bytes to return from chunk
	index  int64  // of the next chunk
	end    error  // the error for all further reads
}

// Read returns bytes only from verified chunks. The sum over all is checked before io.EOF.
func (r *copyReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.end == nil {
			r.end = r.fill()
		}
		if r.end != nil {
			return 0, r.end
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// fill reads and verifies the next chunk.
func (r *copyReader) fill() error {
	if r.index == chunkCount(r.body.Length) {
		return r.finish()
	}
	c := r.chunk
	c.n = chunkLength(r.body.Length, r.index)
	if err := r.read(c.data()); err != nil {
		return err
	}
	if r.index == 0 {
		r.layout = r.detect()
	}
	if r.layout == framed {
		if err := r.read(c.bytes[c.n : c.n+trailerSize]); err != nil {
			return err
		}
		if err := c.open(r.index); err != nil {
			return err
		}
	}
	c.measure()
	r.sum.add(c)
	c.convert(r.body, r.index)
	r.index++
	r.rest = c.stored()
	return nil
}

// detect finds the layout of the source from the first chunk: it is framed if a valid trailer follows.
func (r *copyReader) detect() layout {
	c := r.chunk
	trailer, err := r.in.Peek(trailerSize)
	if err != nil {
		return plain
	}
	copy(c.bytes[c.n:], trailer)
	if c.open(0) != nil {
		return plain
	}
	return framed
}

// read fills b. An early end is a wrong length.
func (r *copyReader) read(b []byte) error {
	for n := 0; n < len(b); {
		m, err := r.in.Read(b[n:])
		n += m
		switch {
		case IsEnd(err):
			return errLength
		case err != nil:
			return err
		}
	}
	return nil
}

// finish checks that nothing follows the last chunk, and the sum if the row has one.
func (r *copyReader) finish() error {
	switch _, err := r.in.ReadByte(); {
	case err == nil:
		return errLength
	case !IsEnd(err):
		return err
	}
	if err := r.sum.check(); err != nil && !errors.Is(err, errNoSum) {
		return err
	}
	return io.EOF
}

var errLength = errcode.Wrap(errcode.Internal, "it has another length than the body", ErrCorrupt)

// Close also closes the source.
func (r *copyReader) Close() error {
	if r.chunk != nil {
		r.chunk.release()
		r.chunk, r.rest, r.end = nil, nil, errClosed
	}
	return r.from.Close()
}
