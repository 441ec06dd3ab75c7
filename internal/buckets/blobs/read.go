package blobs

import (
	"context"
	"errors"
	"io"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
)

// Open verifies the first chunk before it returns, so that most errors occur before the response is sent.
func (c *Cluster) Open(ctx context.Context, path string, body buckets.Reference, offset, length int64) (io.ReadCloser, error) {
	if length < 0 {
		length = body.Length - offset
	}
	if offset < 0 || length < 0 || offset+length > body.Length {
		return nil, ErrRange()
	}
	if length == 0 {
		return &bodyReader{end: io.EOF}, nil
	}
	from, missing := c.copies(body.Sharks)
	if missing != nil && c.Missing != nil {
		c.Missing(ctx)
		from, missing = c.copies(body.Sharks)
	}
	r := &bodyReader{
		reading: c.newReading(ctx, copySet{path, &body, from}, offset/chunkSize, chunkCount(offset+length)),
		skip:    int(offset % chunkSize), left: length,
	}
	r.missing = missing
	if err := r.fetch(); err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

// OpenStored returns a verified copy in the format stored on nodes, and its size.
func (c *Cluster) OpenStored(ctx context.Context, path string, body buckets.Reference) (io.ReadCloser, int64, error) {
	if body.Length == 0 {
		return &bodyReader{end: io.EOF}, 0, nil
	}
	from, missing := c.copies(body.Sharks)
	r := &bodyReader{reading: c.newReading(ctx, copySet{path, &body, from}, 0, chunkCount(body.Length)), stored: true}
	r.missing = missing
	if err := r.fetch(); err != nil {
		_ = r.Close()
		return nil, 0, err
	}
	r.left = StoredSize(&r.body.Body)
	return r, r.left, nil
}

// copies returns the known nodes among sharks. missing is the error for an unknown node, if there was one.
func (c *Cluster) copies(sharks []string) (from []*member, missing error) {
	for _, id := range sharks {
		m, err := c.member(id)
		if err != nil {
			missing = err
			continue
		}
		from = append(from, m)
	}
	return from, missing
}

// bodyReader returns a range of a body from verified chunks.
type bodyReader struct {
	*reading
	stored  bool // return the stored bytes, including trailers
	current *chunk
	offset  int   // bytes returned from the current chunk
	skip    int   // bytes to skip in the next chunk
	left    int64 // bytes to return
	end     error // the error for all further reads
}

func (r *bodyReader) Read(p []byte) (int, error) {
	next, err := r.advance()
	if err != nil {
		return 0, err
	}
	n := copy(p, next)
	r.returned(n)
	return n, nil
}

func (r *bodyReader) WriteTo(w io.Writer) (total int64, err error) {
	for {
		next, err := r.advance()
		if IsEnd(err) {
			return total, nil
		} else if err != nil {
			return total, err
		}
		n, err := w.Write(next)
		r.returned(n)
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
}

// returned counts n bytes that were read.
func (r *bodyReader) returned(n int) { r.offset, r.left = r.offset+n, r.left-int64(n) }

// advance returns the bytes that can be read now, at least 1, or io.EOF.
func (r *bodyReader) advance() ([]byte, error) {
	switch {
	case r.end != nil:
		return nil, r.end
	case r.left == 0:
		return nil, io.EOF
	}
	if next := r.rest(); len(next) > 0 {
		return next, nil
	}
	if err := r.fetch(); err != nil {
		return nil, err
	}
	return r.rest(), nil
}

// rest returns the unread bytes in the current chunk, within the range.
func (r *bodyReader) rest() []byte {
	if r.current == nil {
		return nil
	}
	b := r.current.data()
	if r.stored {
		b = r.current.stored()
	}
	b = b[r.offset:]
	return b[:min(int64(len(b)), r.left)]
}

// fetch replaces the current chunk. After the last, the source is closed early, so that a slow client holds no file.
func (r *bodyReader) fetch() error {
	r.discard()
	next, err := r.next()
	if err != nil {
		r.end = err
		return err
	}
	if r.stored {
		next.convert(&r.body.Body, r.at-1)
	}
	r.current, r.offset, r.skip = next, r.skip, 0
	if r.at == r.to {
		r.drop()
	}
	return nil
}

// discard gives the current chunk back.
func (r *bodyReader) discard() {
	if r.current != nil {
		r.current.release()
		r.current = nil
	}
}

func (r *bodyReader) Close() error {
	r.end = errClosed
	if r.reading != nil {
		r.drop()
	}
	r.discard()
	return nil
}

var errClosed = errors.New("read of a body after Close")

// convert changes a verified chunk to the layout of the row.
func (c *chunk) convert(b *buckets.Body, index int64) {
	switch {
	case !b.Frames.Set:
		c.layout = plain
	case c.layout == plain:
		c.seal(b.Frames.Value.ID, index)
	}
}

// lost returns the error for a chunk without a good copy. The chunk counts as lost unless a failed node may have it.
func (r *reading) lost() error {
	var all []error
	down := false
	for _, p := range r.replicas {
		all = append(all, p.err)
		down = down || errcode.Is(p.err, errcode.Unavailable)
	}
	cause := errors.Join(all...)
	switch {
	case r.missing != nil:
		return errcode.Wrap(errcode.Unavailable, "a storage node of the body is not configured", errors.Join(r.missing, cause))
	case down:
		return errcode.Wrap(errcode.Unavailable, "no storage node of the body works now; retry later", cause)
	}
	r.c.tell(Finding{Path: r.path, Problem: Lost, Reference: r.body})
	return errcode.Wrap(errcode.Internal, "no storage node has a good copy of the body", cause)
}
