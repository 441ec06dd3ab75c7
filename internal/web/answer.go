package web

import (
	"bytes"
	"errors"
	"io"
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

const (
	// unchargedBytes is the size of bodies and answers that are not charged to the
	// budget of memory. A connection takes more by itself, 20 KB: net/http has a
	// goroutine and two buffers of 4 KiB for it.
	unchargedBytes = 4 << 10

	// firstBytes is what is charged and allocated when the first byte of a larger body
	// is awaited. Each time that is full, it grows by bodyGrowth, so that a client which
	// announces a large body and withholds it has little of the budget.
	firstBytes = 64 << 10
	bodyGrowth = 4
)

// ReadBody reads the body of a request, of at most limit bytes, to its end: also
// one that is as long as it was announced, because only there a signature is
// verified and a body that was cut off fails. What it allocates for more than 4 KiB is
// charged to the request (ChargeMemory) as the body arrives. The error is one of e or
// of ChargeMemory.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64, e *BodyErrors) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, e.Announced
	}
	most := limit
	if r.ContentLength >= 0 {
		most = r.ContentLength
	}
	most += bytes.MinRead // to meet the end in
	size := min(most, unchargedBytes)
	if r.ContentLength > unchargedBytes-bytes.MinRead {
		size = min(most, firstBytes)
		if err := ChargeMemory(w, r, size); err != nil {
			return nil, err
		}
	}
	b := make([]byte, 0, size)
	body := http.MaxBytesReader(w, r.Body, limit)
	for {
		n, err := body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return nil, e.Of(err)
		}
		if len(b) < cap(b) {
			continue
		}
		size = min(most, max(int64(cap(b))*bodyGrowth, firstBytes))
		if err := ChargeMemory(w, r, size-int64(cap(b))); err != nil {
			return nil, err
		}
		b = append(make([]byte, 0, size), b...)
	}
}
