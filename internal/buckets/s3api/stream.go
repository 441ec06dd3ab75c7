package s3api

import (
	"net/http"

	"holdfast/internal/web"
)

const (
	// maxFixed is above the size of a list entry without its name.
	maxFixed = 1 << 10

	// maxEscaped is the length of the longest escape of a byte, e.g. &quot;.
	maxEscaped = 6
)

// stream is a document that is sent in blocks while it is built, for long answers.
type stream struct {
	*document
	*web.Blocks
}

// newStream begins a document. Nothing is sent before the first block is full, so an early error still gets its status.
func (x *request) newStream(root string) *stream {
	s := &stream{document: &document{b: make([]byte, 0, web.FirstBlock)}, Blocks: web.NewBlocks(x.out, x.in, http.StatusOK, "application/xml")}
	s.start(root)
	return s
}

// grow makes space for n bytes, at most web.BlockBytes.
func (s *stream) grow(n int) (err error) {
	s.b, err = s.Grow(s.b, n)
	return err
}

// finish closes all elements and sends the rest.
func (s *stream) finish() error {
	if err := s.grow(maxFixed); err != nil {
		return err
	}
	s.closeAll()
	s.Finish(s.b)
	return nil
}
