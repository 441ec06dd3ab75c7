package blobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
)

// source verifies a copy in a goroutine, which is abandoned if the node hangs. The goroutine reads one chunk ahead, so
// that the next chunk is verified while the previous one is sent.
type source struct {
	node    *member
	cancel  context.CancelFunc
	wanted  chan wanted  // requests to the goroutine, in order
	got     chan fetched // results in the same order
	pending bool         // a chunk was requested but not received
	at, end int64        // after the last chunk // next chunk to request
	length  int64        // content bytes
	timer   *time.Timer
}

// wanted is a request for a chunk, with an empty buffer.
type wanted struct {
	chunk *chunk
	index int64
}

// fetched is a verified chunk, or the error.
type fetched struct {
	chunk *chunk
	err   error
	size  int64 // stored size of the copy; 0 if it did not open
}

// verifier knows how to check chunks of a copy.
type verifier struct {
	layout layout
	body   buckets.Body
	sums   []uint64 // per chunk; nil if unknown
	alone  bool     // the chunk is the whole body
}

var errLayout = errors.New("the copy has another layout")

// verify cannot check a chunk, unless it is the whole body, if neither checksums nor a frame ID are known. The caller
// then verifies the whole body.
func (v *verifier) verify(c *chunk, index int64) error {
	if v.layout == plain {
		c.measure()
	} else {
		switch err := c.open(index); {
		case err != nil:
			return err
		case v.body.Frames.Set && c.id == v.body.Frames.Value.ID:
			return nil
		case v.body.Frames.Set:
			return errFrame
		}
	}
	switch {
	case v.sums != nil && v.sums[index] != c.sum:
		return errChunk
	case v.sums == nil && v.alone:
		sum := newSum(&v.body)
		sum.add(c)
		return sum.check()
	}
	return nil
}

// span is a range of chunk indexes; to is exclusive.
type span struct{ from, to int64 }

// openSource begins to read a copy. Nothing is read before the first next.
func (c *Cluster) openSource(ctx context.Context, m *member, path string, v verifier, part span) *source {
	ctx, cancel := context.WithCancel(ctx)
	s := &source{
		node: m, cancel: cancel, wanted: make(chan wanted, 1), got: make(chan fetched, 1),
		at: part.from, end: part.to, length: v.body.Length, timer: time.NewTimer(c.ReadStall),
	}
	c.work.Go(func() {
		r, err := v.get(ctx, m, path, part)
		var size int64
		if err == nil {
			size = r.Size()
		}
		for w := range s.wanted {
			failed := err
			if failed == nil {
				err = v.read(r, w.chunk, size)
				failed = err
			}
			if failed == nil {
				failed = v.verify(w.chunk, w.index)
			}
			s.got <- fetched{w.chunk, failed, size}
		}
		if r != nil {
			_ = r.Close()
		}
	})
	return s
}

// get opens the range that the chunks take. It returns errLayout if the size fits the other layout, and an error that
// is also errTruncated if the copy is too short.
func (v *verifier) get(ctx context.Context, m *member, path string, part span) (Reader, error) {
	offset, right := v.layout.offset(part.from), v.layout.size(v.body.Length)
	end := min(v.layout.offset(part.to), right)
	r, err := m.driver.Get(ctx, path, offset, end-offset)
	var size int64
	switch {
	case err == nil:
		size = r.Size()
	case errcode.Is(err, errcode.Invalid):
		info, statErr := m.driver.Stat(ctx, path)
		if statErr != nil {
			return nil, statErr
		}
		if size = info.Size; size == right {
			return nil, errcode.Wrap(errcode.Unavailable, "storage node "+m.id+" cannot read a part of a copy", err)
		}
		err = errShort(size)
	default:
		return nil, err
	}
	if size != right && size == v.layout.other().size(v.body.Length) {
		err = errLayout
	}
	if err != nil && r != nil {
		_ = r.Close()
		r = nil
	}
	return r, err
}

// errShort is the error for a copy that ends early.
func errShort(size int64) error {
	return errcode.Wrap(errcode.Internal, fmt.Sprintf("the copy ends after %d bytes", size), errors.Join(ErrCorrupt, errTruncated))
}

var errTruncated = errors.New("wrong size")

// read fills the chunk. It tells a short copy (damage) from a node that stops early (a failure).
func (v *verifier) read(r io.Reader, c *chunk, size int64) error {
	_, err := io.ReadFull(r, c.bytes[:c.n+v.layout.trailer()])
	switch {
	case err == nil:
		return nil
	case !IsEnd(err) && err != io.ErrUnexpectedEOF: // from ReadFull; wrapped errors from drivers are failures
		return err
	case size == v.layout.size(v.body.Length):
		return errcode.New(errcode.Unavailable, "the storage node stopped in the middle of a copy")
	}
	return errShort(size)
}

// next waits at most stall for a chunk, and requests the following chunk at once.
func (s *source) next(ctx context.Context, stall time.Duration) (*chunk, int64, error) {
	if !s.pending {
		s.want()
	}
	s.timer.Reset(stall)
	defer s.timer.Stop()
	select {
	case f := <-s.got:
		s.pending = false
		if f.err != nil {
			f.chunk.release()
			return nil, f.size, f.err
		}
		if s.at < s.end {
			s.want()
		}
		return f.chunk, f.size, nil
	case <-s.timer.C:
		return nil, 0, errStalled
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
}

// want requests the next chunk.
func (s *source) want() {
	next := newChunk()
	next.n = chunkLength(s.length, s.at)
	s.pending = true
	s.wanted <- wanted{next, s.at}
	s.at++
}

// close does not wait for the goroutine, which ends once its driver returns.
func (s *source) close() {
	s.cancel()
	close(s.wanted)
}
