package s3api

import (
	"errors"
	"net/http"
	"strconv"

	"holdfast/internal/buckets"
	"holdfast/internal/fair"
	"holdfast/internal/fault"
	"holdfast/internal/web"
)

const (
	firstBlock = 4 << 10  // bytes that are not charged: most answers are short
	blockBytes = 32 << 10 // of a charged block
	maxBlocks  = 16       // of an answer that is kept until it is complete

	// sliceBytes ends a slice of a list: about what 500 objects with short names take.
	sliceBytes = 256 << 10

	// sliceMemory is charged for a slice, which may exceed sliceBytes by an entry, and has
	// room for more objects.
	sliceMemory = sliceBytes + buckets.MaxEntry + 64<<10

	// maxFixed is more than an entry of a list takes in its document without its name.
	maxFixed = 1 << 10

	// maxEscaped is how many bytes a byte of a text takes at most in a document, as &quot; does.
	maxEscaped = 6
)

// stream is a document of any length. It is kept in blocks that are charged before they are
// allocated, and sent whole if it is short. A long one is sent while the rest is read, and so
// is one for which there is no memory. Then an error closes the connection.
type stream struct {
	*document // b is the block that is written
	x         *request
	full      [][]byte // blocks before it
	charged   int64    // bytes of the blocks
	sending   bool     // the header was sent
}

// newStream begins a document with its root element.
func (x *request) newStream(root string) *stream {
	s := &stream{x: x, document: &document{b: make([]byte, 0, firstBlock)}}
	s.start(root)
	return s
}

// room makes room for n bytes, at most blockBytes.
func (s *stream) room(n int) error {
	switch {
	case cap(s.b)-len(s.b) >= n:
		return nil
	case s.sending && cap(s.b) >= blockBytes:
		return s.flush()
	case s.charged == 0:
		if err := web.ChargeMemory(s.x.out, s.x.in, blockBytes); err != nil {
			return err
		}
	case len(s.full) == maxBlocks, !web.TryChargeMemory(s.x.out, blockBytes):
		return s.flush()
	}
	s.charged += blockBytes
	s.full = append(s.full, s.b)
	s.b = make([]byte, 0, blockBytes)
	return nil
}

// flush sends the blocks, and keeps the last one to be written again.
func (s *stream) flush() error {
	if !s.sending {
		s.sending = true
		s.x.out.Header().Set("Content-Type", "application/xml")
		s.x.out.WriteHeader(http.StatusOK)
	}
	for i, b := range s.full {
		if err := s.write(b); err != nil {
			return err
		}
		s.full[i] = nil
		s.release(b)
	}
	s.full = s.full[:0]
	err := s.write(s.b)
	s.b = s.b[:0]
	return err
}

// release releases the memory of a block that was sent.
func (s *stream) release(b []byte) {
	if cap(b) >= blockBytes {
		s.charged -= blockBytes
		web.ReleaseMemory(s.x.out, blockBytes)
	}
}

func (s *stream) write(b []byte) error {
	if _, err := s.x.out.Write(b); err != nil {
		return fault.Wrap(fault.Unavailable, "the client stopped reading the answer", err)
	}
	return nil
}

// finish closes all elements and sends the rest. A client that went away has no effect.
func (s *stream) finish() error {
	if err := s.room(maxFixed); err != nil {
		return err
	}
	s.closeAll()
	if !s.sending {
		n := len(s.b)
		for _, b := range s.full {
			n += len(b)
		}
		s.x.out.Header().Set("Content-Length", strconv.Itoa(n))
	}
	_ = s.flush()
	return nil
}

// slotTries is how often the rest of an answer waits for a slot, each time as long as a request
// may wait: an answer that ends early has wasted what it took.
const slotTries = 5

// read reads a slice of a list. It has the slot of the request, which an answer that is being
// sent has released.
func (s *stream) read(fn func() error) error {
	if !s.sending {
		return fn()
	}
	var err error
	for range slotTries {
		if err = web.AcquireSlot(s.x.out, s.x.in); !errors.Is(err, fair.ErrFull) {
			break
		}
	}
	if err != nil {
		return err
	}
	defer web.ReleaseSlot(s.x.out)
	return fn()
}

// slices reads a list in slices of limit entries at most, with memory that is charged for one. next
// reads and writes a slice, and reports whether there are more.
func (s *stream) slices(memory int64, next func() (more bool, err error)) error {
	if err := web.ChargeMemory(s.x.out, s.x.in, memory); err != nil {
		return err
	}
	defer web.ReleaseMemory(s.x.out, memory)
	for {
		if more, err := next(); err != nil || !more {
			return err
		}
	}
}
