package web

import (
	"io"
	"net/http"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/fairshare"
)

// Memory limits the bytes in bodies, decoded data and responses. It is safe for concurrent use.
type Memory struct {
	bytes *fairshare.Pool // clients by name; a unit is a byte
}

// NewMemory returns a budget of limit bytes. A charge that does not fit waits up to wait, and at most waiting charges
// wait; others fail with fairshare.ErrFull. Pass it in Options.Memory. A single client never gets the reserve
// (fairshare.Reserve), an eighth of limit.
func NewMemory(limit int64, waiting int, wait time.Duration) *Memory {
	return &Memory{bytes: fairshare.New(limit, waiting, wait)}
}

// Resize changes NewMemory's arguments while requests are served, when settings are reloaded.
func (m *Memory) Resize(limit int64, waiting int, wait time.Duration) {
	m.bytes.Resize(limit, waiting, wait)
}

// ChargeMemory charges n more bytes to a request's client before they are allocated, if there is a budget; 0 or less
// charges nothing. They are released when the request ends, or by ReleaseMemory. ChargeMemory may wait, without the
// request's slot. The handler should then hold no shared resources and little memory, because two requests that wait for
// each other's memory both fail. The error is fairshare.ErrFull or the cause of the request's context; or an error of
// AcquireSlot, with n charged. ChargeMemory is not safe for concurrent use.
func ChargeMemory(req *http.Request, n int64) error {
	if TryChargeMemory(req, n) {
		return nil
	}
	r := responseOf(req)
	return WithoutSlot(req, func() error {
		if err := r.memory.bytes.Acquire(req.Context(), r.chargedTo(), n); err != nil {
			return err
		}
		r.charged += n
		return nil
	})
}

// TryChargeMemory is like ChargeMemory, but returns false instead of waiting. Then nothing was charged.
func TryChargeMemory(req *http.Request, n int64) bool {
	r := responseOf(req)
	if r == nil || r.memory == nil || n <= 0 {
		return true
	}
	if !r.memory.bytes.TryAcquire(r.chargedTo(), n) {
		return false
	}
	r.charged += n
	return true
}

// ReleaseMemory releases n charged bytes early. It panics if the request has charged fewer, and does nothing without a
// budget.
func ReleaseMemory(req *http.Request, n int64) {
	if r := responseOf(req); r != nil {
		r.discharge(n)
	}
}

func (r *response) discharge(n int64) {
	if r.memory == nil || n <= 0 {
		return
	}
	if n > r.charged {
		panic("web: released more memory than was charged")
	}
	r.charged -= n
	r.memory.bytes.Release(r.client, n)
}

// chargedBody charges a request body while the handler reads it, unless StreamBody was called.
type chargedBody struct {
	io.ReadCloser
	response *response
	read     int64 // bytes read so far
}

func (b *chargedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	r := b.response
	if r.streams {
		return n, err
	}
	if b.read += int64(n); b.read > unchargedBytes && b.read > r.charged {
		if full := ChargeMemory(r.request, b.read-r.charged); full != nil {
			return n, full
		}
	}
	return n, err
}

// StreamBody declares that the handler keeps no more of the body than it has charged. Otherwise every byte read is
// charged. Call it before the first read.
func StreamBody(req *http.Request) {
	if r := responseOf(req); r != nil {
		r.streams = true
	}
}

// StaticBody declares that the response is part of the program. Otherwise each piece is charged until the client has
// read it. Call it before the first write.
func StaticBody(req *http.Request) {
	if r := responseOf(req); r != nil {
		r.static = true
	}
}

// hold charges a piece of the response while it is written, as far as the request's own charge does not cover it
// already.
func (r *response) hold(piece []byte) (release func(), err error) {
	n := int64(len(piece)) - r.charged
	if len(piece) <= unchargedBytes || n <= 0 || r.static {
		return func() {}, nil
	}
	if err := ChargeMemory(r.request, n); err != nil {
		r.full = err
		return nil, err
	}
	return func() { r.discharge(n) }, nil
}

// Charge wraps a handler that is not served by a Mux, such as the metrics, to charge need bytes per request, plus its
// body and response. It answers 503 if the budget is used up.
func Charge(m *Memory, need int64, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r := &response{ResponseWriter: w, memory: m, client: "listener"}
		req = r.of(req)
		defer r.releaseMemory()
		err := r.chargeHeader(req)
		if err == nil {
			err = ChargeMemory(req, need)
		}
		if err != nil {
			http.Error(w, errcode.Message(err), http.StatusServiceUnavailable)
			return
		}
		h.ServeHTTP(r, r.chargeBody(req))
		if r.full != nil {
			panic(http.ErrAbortHandler)
		}
	})
}

// chargeBody returns the request with a chargedBody, if there is a budget.
func (r *response) chargeBody(req *http.Request) *http.Request {
	if r.memory == nil || req.Body == nil || req.Body == http.NoBody {
		return req
	}
	charged := *req // net/http uses the body of its own request
	charged.Body = &chargedBody{ReadCloser: req.Body, response: r}
	return &charged
}

// fieldMemory is the memory for a header field besides its text: a map entry and a slice.
const fieldMemory = 100

// chargeHeader charges a large header to the client. The header is in memory already, so the request does not wait: it
// would keep the header outside the budget meanwhile. Over HTTP/2, a client can send many with few bytes (RFC 7541).
func (r *response) chargeHeader(req *http.Request) error {
	if r.memory == nil {
		return nil
	}
	n := int64(len(req.RequestURI))
	for name, values := range req.Header {
		n += int64(fieldMemory + len(name))
		for _, v := range values {
			n += int64(len(v))
		}
	}
	for name := range req.Trailer {
		n += int64(fieldMemory + len(name))
	}
	if n <= unchargedBytes {
		return nil
	}
	if !r.memory.bytes.TryAcquire(r.chargedTo(), n) {
		return fairshare.ErrFull
	}
	r.header = n
	return nil
}

// releaseMemory releases everything at the end.
func (r *response) releaseMemory() {
	r.discharge(r.charged)
	if r.header > 0 {
		r.memory.bytes.Release(r.client, r.header)
		r.header = 0
	}
}

// TakePeak returns the maximum use since the last call, in bytes.
func (m *Memory) TakePeak() int64 { return m.bytes.TakePeak() }

// Stats returns the budget's state in bytes.
func (m *Memory) Stats() fairshare.Stats { return m.bytes.Stats() }
