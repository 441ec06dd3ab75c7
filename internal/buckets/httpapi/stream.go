package httpapi

import (
	"encoding/json"
	"net/http"

	"holdfast/internal/errcode"
	"holdfast/internal/web"
)

// listStream writes a JSON list in blocks.
type listStream struct {
	blocks *web.Blocks
	b      []byte
	count  int // items so far
}

// newList begins with the text before.
func (x *exchange) newList(status int, before string) *listStream {
	s := &listStream{blocks: web.NewBlocks(x.out, x.in, status, "application/json"), b: make([]byte, 0, web.FirstBlock)}
	s.b = append(s.b, before...)
	return s
}

// newPage begins a page.
func (x *exchange) newPage() *listStream { return x.newList(http.StatusOK, `{"items":[`) }

// add appends an item.
func (s *listStream) add(item any) error {
	text, err := json.Marshal(item)
	if err != nil {
		return errcode.Wrap(errcode.Internal, "encode the response", err)
	}
	if s.count++; s.count > 1 {
		if err := s.text(","); err != nil {
			return err
		}
	}
	s.b, err = s.blocks.Append(s.b, text)
	return err
}

// text appends raw JSON.
func (s *listStream) text(t string) (err error) {
	s.b, err = s.blocks.Append(s.b, []byte(t))
	return err
}

// finish appends after and sends the rest.
func (s *listStream) finish(after string) error {
	if err := s.text(after + "\n"); err != nil {
		return err
	}
	s.blocks.Finish(s.b)
	return nil
}

// finishPage ends a page; next_marker is null on the last.
func (s *listStream) finishPage(more bool, marker string) error {
	end := []byte("null")
	if more {
		var err error
		if end, err = json.Marshal(marker); err != nil {
			return errcode.Wrap(errcode.Internal, "encode the response", err)
		}
	}
	return s.finish(`],"next_marker":` + string(end) + "}")
}
