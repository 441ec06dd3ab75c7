package httpapi

import (
	"bytes"
	"net/http"
)

// body reads the body of a request, which its collection's limit bounds. It
// reads to the end, also of a body that is as long as it was announced: there a
// signed one is verified, and there one that was cut off fails. Half a list of
// lines would be a list, too.
func (h *Handler) body(x *exchange) ([]byte, error) {
	limit := h.Service.Limits(x.ask.Collection).MaxRequestBytes
	if x.in.ContentLength > limit {
		return nil, errLength
	}
	var b bytes.Buffer
	// ReadFrom wants MinRead to spare, or it grows the buffer to meet the end.
	b.Grow(int(max(x.in.ContentLength, 0)) + bytes.MinRead)
	if _, err := b.ReadFrom(http.MaxBytesReader(x.out, x.in.Body, limit)); err != nil {
		return nil, bodyError(err)
	}
	return b.Bytes(), nil
}
