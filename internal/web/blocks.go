package web

import (
	"errors"
	"net/http"
	"strconv"

	"holdfast/internal/errcode"
	"holdfast/internal/fairshare"
)

const (
	// FirstBlock is the size of the first block, which is not charged: most answers fit in it.
	FirstBlock = 4 << 10

	// BlockBytes is the size of the other blocks.
	BlockBytes = 32 << 10

	maxBlocks = 16 // longer answers are sent in parts
)

// Blocks builds an answer from a list, in blocks that are charged before allocation. An answer that is long, or for
// which there is no memory, is sent while the list is read; an error then closes the connection.
type Blocks struct {
	w         http.ResponseWriter
	r         *http.Request
	status    int
	mediaType string
	full      [][]byte // blocks that are not sent yet, without the current one
	charged   int64    // bytes charged for blocks
	sending   bool     // the header is sent, so no error response is possible
}

// NewBlocks returns an empty answer. The caller appends to a []byte that begins as nil: b, err = blocks.Grow(b, n)
// before each append, and blocks.Finish(b) at the end.
func NewBlocks(w http.ResponseWriter, r *http.Request, status int, mediaType string) *Blocks {
	return &Blocks{w: w, r: r, status: status, mediaType: mediaType}
}

// Grow returns a block with space for n more bytes, at most BlockBytes: b itself, or an empty block after storing or
// sending b. The error is ChargeMemory's, or Unavailable if the client stopped reading; the handler returns it.
func (s *Blocks) Grow(b []byte, n int) ([]byte, error) {
	switch {
	case cap(b)-len(b) >= n:
		return b, nil
	case b == nil && n <= FirstBlock:
		return make([]byte, 0, FirstBlock), nil
	case s.sending && cap(b) >= BlockBytes:
		return s.flush(b)
	case s.charged == 0:
		if err := ChargeMemory(s.r, BlockBytes); err != nil {
			return b, err
		}
	case len(s.full) == maxBlocks, !TryChargeMemory(s.r, BlockBytes):
		return s.flush(b)
	}
	s.charged += BlockBytes
	if len(b) > 0 {
		s.full = append(s.full, b)
	}
	return make([]byte, 0, BlockBytes), nil
}

// Append appends text to b, and returns the last block.
func (s *Blocks) Append(b, text []byte) (_ []byte, err error) {
	for len(text) > 0 {
		if len(b) == cap(b) {
			if b, err = s.Grow(b, min(len(text), BlockBytes)); err != nil {
				return b, err
			}
		}
		n := min(len(text), cap(b)-len(b))
		b, text = append(b, text[:n]...), text[n:]
	}
	return b, nil
}

// flush sends the stored blocks and then b, which it returns empty.
func (s *Blocks) flush(b []byte) ([]byte, error) {
	if !s.sending {
		s.sending = true
		s.w.Header().Set("Content-Type", s.mediaType)
		s.w.WriteHeader(s.status)
	}
	for i, full := range s.full {
		if err := s.write(full); err != nil {
			return b, err
		}
		s.full[i] = nil
		if cap(full) >= BlockBytes {
			s.charged -= BlockBytes
			ReleaseMemory(s.r, BlockBytes)
		}
	}
	s.full = s.full[:0]
	err := s.write(b)
	return b[:0], err
}

// write sends a block.
func (s *Blocks) write(b []byte) error {
	if _, err := s.w.Write(b); err != nil {
		return errcode.Wrap(errcode.Unavailable, "the client stopped reading the answer", err)
	}
	return nil
}

// Finish sends the rest. An answer that fits into memory gets a Content-Length.
func (s *Blocks) Finish(b []byte) {
	if !s.sending {
		n := len(b)
		for _, full := range s.full {
			n += len(full)
		}
		s.w.Header().Set("Content-Length", strconv.Itoa(n))
	}
	_, _ = s.flush(b)
}

// slotTries is how often Read tries to acquire a slot: giving up in the middle of an answer wastes everything so far.
const slotTries = 5

// Read runs fn, which reads the next rows, with a slot. The first part runs in the request's own slot; that slot ends
// when the answer begins, so later calls acquire another.
func (s *Blocks) Read(fn func() error) error {
	if !s.sending {
		return fn()
	}
	var err error
	for range slotTries {
		if err = AcquireSlot(s.r); !errors.Is(err, fairshare.ErrFull) {
			break
		}
	}
	if err != nil {
		return err
	}
	defer ReleaseSlot(s.r)
	return fn()
}

// Slices calls next until it returns false or an error. It charges memory bytes meanwhile, for the rows that next
// decodes at a time.
func (s *Blocks) Slices(memory int64, next func() (more bool, err error)) error {
	if err := ChargeMemory(s.r, memory); err != nil {
		return err
	}
	defer ReleaseMemory(s.r, memory)
	for {
		if more, err := next(); err != nil || !more {
			return err
		}
	}
}
