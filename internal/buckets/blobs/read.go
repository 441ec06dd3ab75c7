package blobs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5" //nolint:gosec // the ETag of S3
	"encoding/binary"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"slices"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/fault"
)

// Open implements buckets.Bodies. It returns after the first bytes were read, so most
// errors are known before a response begins. If a node fails or stalls, the reader goes
// on with another copy. A body of up to one chunk that is read whole is verified before
// its first byte is returned; a wrong copy is then replaced by another one.
func (c *Cluster) Open(ctx context.Context, path string, b buckets.Body, offset, length int64) (io.ReadCloser, error) {
	from, missing := c.copies(b)
	if missing != nil && c.Missing != nil {
		c.Missing(ctx)
		from, missing = c.copies(b)
	}
	r, err := c.read(ctx, path, b, from, offset, length)
	if err != nil && missing != nil && !fault.Is(err, fault.Invalid) {
		// The missing node may have a good copy.
		return nil, fault.Wrap(fault.Unavailable, "a storage node of the body is not configured", errors.Join(missing, err))
	}
	return r, err
}

// copies returns the nodes that have a copy of a body, and an error if one of them is
// not in the cluster.
func (c *Cluster) copies(b buckets.Body) (from []*member, missing error) {
	for _, id := range b.Sharks {
		m, err := c.member(id)
		if err != nil {
			missing = err
			continue
		}
		from = append(from, m)
	}
	return from, missing
}

// read opens a body on some nodes.
func (c *Cluster) read(ctx context.Context, path string, b buckets.Body, from []*member, offset, length int64) (io.ReadCloser, error) {
	if length < 0 {
		length = b.Length - offset
	}
	if offset < 0 || length < 0 || offset+length > b.Length {
		return nil, ErrRange()
	}
	if b.Length == 0 {
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	r := &bodyReader{c: c, ctx: ctx, path: path, left: c.preference(from, path), start: offset, at: offset, end: offset + length}
	if offset == 0 && length == b.Length {
		r.want, r.sum = checksum(b)
	}
	if length == 0 {
		return r, nil
	}
	if err := r.fetch(); err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns what a reader of the whole body compares, and what computes it: the
// CRC32C, or for a body that has none the MD5. It returns nil if the body has neither.
func checksum(b buckets.Body) (want []byte, sum hash.Hash) {
	switch {
	case b.CRC32C.Set:
		return binary.BigEndian.AppendUint32(nil, b.CRC32C.Value), crc32.New(castagnoli)
	case len(b.MD5) == md5.Size:
		return b.MD5, md5.New() //nolint:gosec // the ETag of S3
	}
	return nil, nil
}

// preference orders copies: first those on nodes that work, last those that were found
// wrong; at random otherwise, so that nodes share the load.
func (c *Cluster) preference(from []*member, path string) []*member {
	c.mu.Lock()
	defer c.mu.Unlock()
	from = slices.Clone(from)
	c.random.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
	rank := func(m *member) int {
		switch {
		case c.bad.Contains(badCopy{m.id, path}):
			return 2
		case m.stalled, c.isAvoided(m):
			return 1
		}
		return 0
	}
	slices.SortStableFunc(from, func(a, b *member) int { return cmp.Compare(rank(a), rank(b)) })
	return from
}

// bodyReader reads a range of a body from its copies.
type bodyReader struct {
	c     *Cluster
	ctx   context.Context //nolint:containedctx // of the request
	path  string
	left  []*member // copies that were not tried
	start int64
	at    int64 // what was fetched
	end   int64

	source *source
	used   []*member // copies that the bytes before at came from
	errs   []error   // of copies

	want    []byte    // checksum of the body, if it is read whole
	sum     hash.Hash // nil: none
	current *chunk
	offset  int // what was returned of the current chunk
	failure error
}

// Read implements io.Reader.
func (r *bodyReader) Read(p []byte) (int, error) {
	if err := r.advance(); err != nil {
		return 0, err
	}
	n := copy(p, r.current.data()[r.offset:])
	r.offset += n
	return n, nil
}

// WriteTo implements io.WriterTo, which saves a copy of each byte.
func (r *bodyReader) WriteTo(w io.Writer) (total int64, err error) {
	for {
		if err := r.advance(); IsEnd(err) {
			return total, nil
		} else if err != nil {
			return total, err
		}
		n, err := w.Write(r.current.data()[r.offset:])
		r.offset += n
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
}

// advance makes sure that the current chunk has bytes that were not returned.
func (r *bodyReader) advance() error {
	switch {
	case r.failure != nil:
		return r.failure
	case r.current != nil && r.offset < r.current.n:
		return nil
	case r.at == r.end:
		return io.EOF
	}
	return r.fetch()
}

// Close implements io.Closer.
func (r *bodyReader) Close() error {
	r.failure = errClosed
	r.drop()
	r.discard()
	return nil
}

var errClosed = errors.New("read of a body after Close")

// drop ends the use of a copy.
func (r *bodyReader) drop() {
	if r.source != nil {
		r.source.close()
		r.source = nil
	}
}

func (r *bodyReader) discard() {
	if r.current != nil {
		r.current.release()
		r.current = nil
	}
}

// fetch reads the next chunk from any copy. The last one of a body is returned only if
// the checksum of the whole is right.
func (r *bodyReader) fetch() error {
	r.discard()
	for {
		if r.source == nil && !r.open() {
			r.failure = r.lost()
			return r.failure
		}
		next, err := r.source.next(r.ctx, r.c.ReadStall, r.end-r.at)
		switch {
		case r.ctx.Err() != nil:
			r.failure = r.ctx.Err()
			return r.failure
		case err != nil:
			r.fail(err)
			continue
		}
		r.use(r.source.node)
		if !r.check(next) {
			next.release()
			if r.failure != nil {
				return r.failure
			}
			continue
		}
		r.at += int64(next.n)
		r.current, r.offset = next, 0
		if r.at == r.end {
			r.drop()
		}
		return nil
	}
}

// open begins to read the next copy.
func (r *bodyReader) open() bool {
	if len(r.left) == 0 {
		return false
	}
	m := r.left[0]
	r.left = r.left[1:]
	r.source = r.c.openSource(r.ctx, m, r.path, r.at, r.end-r.at)
	return true
}

func (r *bodyReader) use(m *member) {
	if n := len(r.used); n == 0 || r.used[n-1] != m {
		r.used = append(r.used, m)
		r.c.observe(m, Read)
	}
}

// fail takes note of a copy that could not be read to the end.
func (r *bodyReader) fail(err error) {
	m := r.source.node
	r.drop()
	switch {
	case fault.Is(err, fault.NotFound):
		r.c.report(m, r.path, Missing)
	case errors.Is(err, io.ErrUnexpectedEOF) && fault.CodeOf(err) == fault.Internal, fault.Is(err, fault.Invalid):
		r.c.report(m, r.path, Truncated)
		err = fault.Wrap(fault.Internal, "storage node "+m.id+" has a truncated copy", errors.Join(ErrCorrupt, err))
	default:
		r.c.observe(m, ReadFailed)
		r.c.blame(r.ctx, m, err)
	}
	r.errs = append(r.errs, err)
}

// check adds a chunk to the checksum and compares it at the end. If the body is wrong and
// nothing of it was returned, the next copy is read from the start.
func (r *bodyReader) check(next *chunk) bool {
	if r.sum == nil {
		return true
	}
	r.sum.Write(next.data())
	if r.at+int64(next.n) < r.end || bytes.Equal(r.sum.Sum(nil), r.want) {
		return true
	}
	problem := Corrupt
	if len(r.used) > 1 {
		problem = Suspect
	}
	for _, m := range r.used {
		r.c.report(m, r.path, problem)
	}
	err := fault.Wrap(fault.Internal, "storage node "+r.source.node.id+" has a wrong copy", ErrCorrupt)
	r.drop()
	if r.at > r.start {
		r.failure = err
		return false
	}
	r.errs, r.used = append(r.errs, err), nil
	r.sum.Reset()
	return false
}

// lost returns the error when no copy is left. The body may still be on a node that does
// not work now; otherwise it is lost.
func (r *bodyReader) lost() error {
	cause := errors.Join(r.errs...)
	for _, err := range r.errs {
		if fault.Is(err, fault.Unavailable) {
			return fault.Wrap(fault.Unavailable, "no storage node of the body works now; retry later", cause)
		}
	}
	return fault.Wrap(fault.Internal, "no storage node has a good copy of the body", cause)
}

// source reads one copy, in a goroutine of its own that may be left behind if the node
// hangs. It reads one chunk ahead.
type source struct {
	node    *member
	cancel  context.CancelFunc
	wanted  chan *chunk // with n set
	got     chan fetched
	pending bool
	timer   *time.Timer
}

type fetched struct {
	chunk *chunk
	err   error
}

func (c *Cluster) openSource(ctx context.Context, m *member, path string, offset, length int64) *source {
	ctx, cancel := context.WithCancel(ctx)
	s := &source{node: m, cancel: cancel, wanted: make(chan *chunk, 1), got: make(chan fetched, 1), timer: time.NewTimer(c.ReadStall)}
	c.work.Go(func() {
		r, err := m.driver.Get(ctx, path, offset, length)
		for next := range s.wanted {
			if err == nil {
				_, err = io.ReadFull(r, next.data())
				if IsEnd(err) {
					err = io.ErrUnexpectedEOF
				}
			}
			s.got <- fetched{next, err}
		}
		if r != nil {
			_ = r.Close()
		}
	})
	return s
}

// next returns the next chunk of a copy that has left more bytes.
func (s *source) next(ctx context.Context, stall time.Duration, left int64) (*chunk, error) {
	if !s.pending {
		s.want(left)
	}
	s.timer.Reset(stall)
	defer s.timer.Stop()
	select {
	case f := <-s.got:
		s.pending = false
		if f.err != nil {
			f.chunk.release()
			return nil, f.err
		}
		if left > int64(f.chunk.n) {
			s.want(left - int64(f.chunk.n))
		}
		return f.chunk, nil
	case <-s.timer.C:
		return nil, errStalled
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *source) want(left int64) {
	next := newChunk()
	next.n = int(min(left, chunkSize))
	s.pending = true
	s.wanted <- next
}

// close ends the goroutine, when its driver returns.
func (s *source) close() {
	s.cancel()
	close(s.wanted)
}
