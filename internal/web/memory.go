package web

import (
	"io"
	"net/http"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/fairshare"
)

// Memory limits the memory of requests in bytes: bodies, decoded data, and responses.
// Clients share it (package fairshare). It is safe for concurrent use.
type Memory struct {
	bytes *fairshare.Pool
}

// NewMemory returns a budget of limit bytes. A charge that does not fit waits, at most
// as long as wait and with at most waiting others. An eighth of the bytes is a reserve
// that a client cannot use above its share.
func NewMemory(limit int64, waiting int, wait time.Duration) *Memory {
	return &Memory{bytes: fairshare.New(limit, waiting, wait)}
}

// Resize changes the arguments of NewMemory. Requests keep their memory.
func (m *Memory) Resize(limit int64, waiting int, wait time.Duration) {
	m.bytes.Resize(limit, waiting, wait)
}

// ChargeMemory charges n more bytes to the client of a request, before the handler
// allocates them. They are released when the request ends, or by ReleaseMemory. It may
// have to wait, without the slot of the request. The handler should hold nothing else
// that others need, and as little memory as possible: two requests that wait for the
// memory of each other both get the error. The error, fairshare.ErrFull or the cause of the
// context, is for the handler to return. Without a budget nothing is charged. Like the
// ResponseWriter it must not be used concurrently.
func ChargeMemory(w http.ResponseWriter, req *http.Request, n int64) error {
	if TryChargeMemory(w, n) {
		return nil
	}
	r := w.(*response)
	return WithoutSlot(w, req, func() error {
		if err := r.memory.bytes.Acquire(req.Context(), r.chargedTo(), n); err != nil {
			return err
		}
		r.charged += n
		return nil
	})
}

// TryChargeMemory is ChargeMemory without waiting: it returns false if the bytes are
// not free. A handler uses it for data that it can only measure by allocating it, and
// drops the data before it waits.
func TryChargeMemory(w http.ResponseWriter, n int64) bool {
	r, ok := w.(*response)
	if !ok || r.memory == nil || n <= 0 {
		return true
	}
	if !r.memory.bytes.TryAcquire(r.chargedTo(), n) {
		return false
	}
	r.charged += n
	return true
}

// ReleaseMemory releases n charged bytes before the request ends.
func ReleaseMemory(w http.ResponseWriter, n int64) {
	r, ok := w.(*response)
	if !ok || r.memory == nil || n <= 0 {
		return
	}
	if n > r.charged {
		panic("web: released more memory than was charged")
	}
	r.charged -= n
	r.memory.bytes.Release(r.client, n)
}

// chargedBody charges what a handler reads of a body, unless the request has charged as much, so
// that a body cannot be kept for free.
type chargedBody struct {
	io.ReadCloser
	response *response
	request  *http.Request
	read     int64
}

// Read implements io.Reader.
func (b *chargedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	r := b.response
	if r.streams {
		return n, err
	}
	if b.read += int64(n); b.read > unchargedBytes && b.read > r.charged {
		if full := ChargeMemory(r, b.request, b.read-r.charged); full != nil {
			return n, full
		}
	}
	return n, err
}

// StreamBody declares that the handler keeps no more of the body than it has charged. Without it
// every byte that is read is charged.
func StreamBody(w http.ResponseWriter) {
	if r, ok := w.(*response); ok {
		r.streams = true
	}
}

// StaticBody declares that the answer is a part of the program. Without it each piece that is
// written is charged until the client has taken it.
func StaticBody(w http.ResponseWriter) {
	if r, ok := w.(*response); ok {
		r.static = true
	}
}

// hold charges a piece of a response that the handler has not charged, because it stays in memory
// until the client has read it. release is to be called then.
func (r *response) hold(piece []byte) (release func(), err error) {
	n := int64(len(piece)) - r.charged
	if len(piece) <= unchargedBytes || n <= 0 || r.static {
		return func() {}, nil
	}
	if err := ChargeMemory(r, r.request, n); err != nil {
		r.full = err
		return nil, err
	}
	return func() { ReleaseMemory(r, n) }, nil
}

// Charge returns a handler that needs no more than need bytes for a request besides its body and
// what it writes, and charges all of it to a budget. It is for handlers that are not a Service.
func Charge(m *Memory, need int64, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r := &response{ResponseWriter: w, request: req, memory: m, client: "listener"}
		defer r.releaseMemory()
		if err := ChargeMemory(r, req, need); err != nil {
			http.Error(w, errcode.Message(err), http.StatusServiceUnavailable)
			return
		}
		h.ServeHTTP(r, r.chargeBody(req))
		if r.full != nil {
			panic(http.ErrAbortHandler)
		}
	})
}

// chargeBody returns the request with a body that is charged.
func (r *response) chargeBody(req *http.Request) *http.Request {
	if r.memory == nil || req.Body == nil || req.Body == http.NoBody {
		return req
	}
	charged := *req // net/http looks at the body of its request
	charged.Body = &chargedBody{ReadCloser: req.Body, response: r, request: req}
	return &charged
}

// releaseMemory releases all memory of a request.
func (r *response) releaseMemory() { ReleaseMemory(r, r.charged) }

// TakePeak returns the maximum of used bytes since the last call.
func (m *Memory) TakePeak() int64 { return m.bytes.TakePeak() }

// Stats returns the state of the budget, in bytes.
func (m *Memory) Stats() fairshare.Stats { return m.bytes.Stats() }
