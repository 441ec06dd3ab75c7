package web

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"strconv"

	"holdfast/internal/fault"
)

// SendJSON writes a whole answer. A client that went away before it has no
// effect: what it asked for is done.
func SendJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// BodyErrors are a protocol's errors for a body that cannot be read.
type BodyErrors struct {
	Announced error // its Content-Length is more than a request may have
	TooLarge  error // more bytes came than a request may have
	TooSlow   error // it came slower than the listener allows
	Cut       error // it ended early, or is malformed by the rules of HTTP
}

// Of returns the protocol's error for a failed read of a body. What a reader in
// between has coded, such as a body with another hash than was signed, stays.
func (e *BodyErrors) Of(err error) error {
	if _, coded := errors.AsType[fault.Coder](err); coded {
		return err
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return e.TooLarge
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return e.TooSlow
	}
	return e.Cut
}

// trusted is how many bytes are allocated because a Content-Length announces
// them. For more than these they have to come first.
const trusted = 64 << 10

// ReadBody reads the body of a request, of at most limit bytes, to its end: also
// one that is as long as it was announced, because only there a signature is
// verified and a body that was cut off fails. The error is one of e.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64, e *BodyErrors) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, e.Announced
	}
	var b bytes.Buffer
	// ReadFrom needs MinRead to spare, or it grows the buffer to meet the end.
	b.Grow(int(min(max(r.ContentLength, 0), trusted)) + bytes.MinRead)
	if _, err := b.ReadFrom(http.MaxBytesReader(w, r.Body, limit)); err != nil {
		return nil, e.Of(err)
	}
	return b.Bytes(), nil
}
