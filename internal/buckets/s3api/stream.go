package s3api

import (
	"net/http"

	"holdfast/internal/buckets"
	"holdfast/internal/web"
)

const (
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

// stream is a document of any length.
type stream struct {
	*document // b is the block that is written
	blocks    *web.Blocks
}

// newStream begins a document with its root element.
func (x *request) newStream(root string) *stream {
	s := &stream{document: &document{b: make([]byte, 0, web.FirstBlock)}, blocks: web.NewBlocks(x.out, x.in, http.StatusOK, "application/xml")}
	s.start(root)
	return s
}

// room makes room for n bytes, at most web.BlockBytes.
func (s *stream) room(n int) (err error) {
	s.b, err = s.blocks.Room(s.b, n)
	return err
}

// finish closes all elements and sends the rest.
func (s *stream) finish() error {
	if err := s.room(maxFixed); err != nil {
		return err
	}
	s.closeAll()
	s.blocks.Finish(s.b)
	return nil
}

// read reads a slice of a list with the slot of the request.
func (s *stream) read(fn func() error) error { return s.blocks.Read(fn) }

// slices reads a list in slices.
func (s *stream) slices(memory int64, next func() (more bool, err error)) error {
	return s.blocks.Slices(memory, next)
}
