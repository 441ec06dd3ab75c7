package blobs

import (
	"errors"
	"io"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
)

// NewCopy returns a body as storage nodes have it, with the content from a reader. Read returns ErrCorrupt at the end if it is
// not the content that the row describes.
func NewCopy(b *buckets.Body, content io.ReadCloser) io.ReadCloser {
	return &copyReader{body: b, content: content, sum: newSum(b), chunk: newChunk()}
}

// copyReader makes a copy of a body.
type copyReader struct {
	body    *buckets.Body
	content io.ReadCloser
	sum     *sum
	chunk   *chunk // nil: closed
	rest    []byte // of the chunk
	index   int64  // of the next chunk
	length  int64  // of the content so far
	end     error
}

// Read implements io.Reader.
func (r *copyReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.end != nil {
			return 0, r.end
		}
		r.fill()
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// fill reads the next chunk.
func (r *copyReader) fill() {
	c := r.chunk
	c.n = 0
	r.end = c.fill(r.content)
	if r.length += int64(c.n); r.length > r.body.Length {
		r.end = errBody
		return
	}
	if c.n > 0 {
		c.measure()
		r.sum.add(c)
		c.convert(r.body, r.index)
		r.index++
		r.rest = c.stored()
	}
	if IsEnd(r.end) {
		if err := r.check(); err != nil {
			r.end, r.rest = err, nil
		}
	}
}

// check returns an error if the content is not the body.
func (r *copyReader) check() error {
	if r.length != r.body.Length {
		return errcode.Wrap(errcode.Internal, "the content has another length than the body", ErrCorrupt)
	}
	if err := r.sum.check(); !errors.Is(err, errNoSum) {
		return err
	}
	return nil
}

// Close implements io.Closer.
func (r *copyReader) Close() error {
	if r.chunk != nil {
		r.chunk.release()
		r.chunk, r.rest, r.end = nil, nil, errClosed
	}
	return r.content.Close()
}
