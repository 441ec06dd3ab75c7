package s3api

import (
	"net/http"

	"holdfast/internal/web"
)

const (
	// maxFixed is more than an entry of a list takes in its document without its name.
	maxFixed = 1 << 10

	// maxEscaped is how many bytes a byte of a text takes at most in a document, as &quot; does.
	maxEscaped = 6
)

// stream is a document of any length.
type stream struct {
	*document // b is the block that is written
	*web.Blocks
}

// newStream begins a document with its root element.
func (x *request) newStream(root string) *stream {
	s := &stream{document: &document{b: make([]byte, 0, web.FirstBlock)}, Blocks: web.NewBlocks(x.out, x.in, http.StatusOK, "application/xml")}
	s.start(root)
	return s
}

// room makes room for n bytes, at most web.BlockBytes.
func (s *stream) room(n int) (err error) {
	s.b, err = s.Room(s.b, n)
	return err
}

// finish closes all elements and sends the rest.
func (s *stream) finish() error {
	if err := s.room(maxFixed); err != nil {
		return err
	}
	s.closeAll()
	s.Finish(s.b)
	return nil
}
