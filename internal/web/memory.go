package web

import (
	"net/http"
	"time"

	"holdfast/internal/fair"
)

// Memory limits the memory of requests in bytes: bodies, decoded data, and responses.
// Clients share it (package fair). It is safe for concurrent use.
type Memory struct {
	bytes *fair.Pool
}

// NewMemory returns a budget of limit bytes. A charge that does not fit waits, at most
// as long as wait and with at most waiting others. An eighth of the bytes is a reserve
// that a client cannot use above its share.
func NewMemory(limit int64, waiting int, wait time.Duration) *Memory {
	return &Memory{bytes: fair.New(limit, waiting, wait)}
}

// ChargeMemory charges n more bytes to the client of a request, before the handler
// allocates them. They are released when the request ends, or by ReleaseMemory. It may
// have to wait, without the slot of the request. The handler should hold nothing else
// that others need, and as little memory as possible: two requests that wait for the
// memory of each other both get the error. The error, fair.ErrFull or the cause of the
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

// releaseMemory releases all memory of a request.
func (r *response) releaseMemory() { ReleaseMemory(r, r.charged) }

// TakePeak returns the maximum of used bytes since the last call.
func (m *Memory) TakePeak() int64 { return m.bytes.TakePeak() }

// Stats returns the state of the budget, in bytes.
func (m *Memory) Stats() fair.Stats { return m.bytes.Stats() }
