package web

import (
	"errors"
	"net/http"
	"strconv"

	"holdfast/internal/errcode"
	"holdfast/internal/fairshare"
)

const (
	// FirstBlock is the size of the first block of an answer in bytes. It is not charged: most
	// answers are short.
	FirstBlock = 4 << 10

	// BlockBytes is the size of the other blocks.
	BlockBytes = 32 << 10

	maxBlocks = 16 // of an answer that is kept until it is complete
)

// Blocks is an answer of any length, which is built from a list. It is kept in
// blocks that are charged before they are allocated, and sent whole if it is short. A long one is
// sent while the rest of the list is read, and so is one for which there is no memory. Then an
// error closes the connection.
type Blocks struct {
	w         http.ResponseWriter
	r         *http.Request
	status    int
	mediaType string
	full      [][]byte // blocks before the one that is written
	charged   int64    // bytes of the blocks
	sending   bool     // the header was sent
}

// NewBlocks returns an answer without a block; Room returns the first one.
func NewBlocks(w http.ResponseWriter, r *http.Request, status int, mediaType string) *Blocks {
	return &Blocks{w: w, r: r, status: status, mediaType: mediaType}
}

// Room returns a block with room for n bytes, at most BlockBytes: b, which is the block that is
// written, or another one if b is full.
func (s *Blocks) Room(b []byte, n int) ([]byte, error) {
	switch {
	case cap(b)-len(b) >= n:
		return b, nil
	case b == nil && n <= FirstBlock:
		return make([]byte, 0, FirstBlock), nil
	case s.sending && cap(b) >= BlockBytes:
		return s.flush(b)
	case s.charged == 0:
		if err := ChargeMemory(s.w, s.r, BlockBytes); err != nil {
			return b, err
		}
	case len(s.full) == maxBlocks, !TryChargeMemory(s.w, BlockBytes):
		return s.flush(b)
	}
	s.charged += BlockBytes
	if len(b) > 0 {
		s.full = append(s.full, b)
	}
	return make([]byte, 0, BlockBytes), nil
}

// Append appends a text of any length to b, and returns the last block.
func (s *Blocks) Append(b, text []byte) (_ []byte, err error) {
	for len(text) > 0 {
		if len(b) == cap(b) {
			if b, err = s.Room(b, min(len(text), BlockBytes)); err != nil {
				return b, err
			}
		}
		n := min(len(text), cap(b)-len(b))
		b, text = append(b, text[:n]...), text[n:]
	}
	return b, nil
}

// flush sends the blocks, and returns the last one to be written again.
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
			ReleaseMemory(s.w, BlockBytes)
		}
	}
	s.full = s.full[:0]
	err := s.write(b)
	return b[:0], err
}

func (s *Blocks) write(b []byte) error {
	if _, err := s.w.Write(b); err != nil {
		return errcode.Wrap(errcode.Unavailable, "the client stopped reading the answer", err)
	}
	return nil
}

// Finish sends the rest, of which b is the last block. A client that went away has no effect.
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

// slotTries is how often the rest of an answer waits for a slot, each time as long as a request
// may wait: an answer that ends early has wasted what it took.
const slotTries = 5

// Read reads a slice of the list. It has the slot of the request, which an answer that is being
// sent has released.
func (s *Blocks) Read(fn func() error) error {
	if !s.sending {
		return fn()
	}
	var err error
	for range slotTries {
		if err = AcquireSlot(s.w, s.r); !errors.Is(err, fairshare.ErrFull) {
			break
		}
	}
	if err != nil {
		return err
	}
	defer ReleaseSlot(s.w)
	return fn()
}

// Slices reads the list in slices, of which each takes at most so much memory, which is charged.
// next reads and writes a slice, and reports whether there are more.
func (s *Blocks) Slices(memory int64, next func() (more bool, err error)) error {
	if err := ChargeMemory(s.w, s.r, memory); err != nil {
		return err
	}
	defer ReleaseMemory(s.w, memory)
	for {
		if more, err := next(); err != nil || !more {
			return err
		}
	}
}
