package web

import (
	"net/http"
	"time"

	"holdfast/internal/fair"
)

// Memory bounds the bytes that requests keep in memory: bodies, what is decoded from
// them, and answers. Clients share them (package fair). It is safe for concurrent use.
type Memory struct {
	bytes *fair.Pool
}

// NewMemory returns a budget of limit bytes. A charge that does not fit waits, at most
// as long as wait and with waiting others at once. An eighth of the bytes is a reserve,
// which a client does not get above its share.
func NewMemory(limit int64, waiting int, wait time.Duration) *Memory {
	return &Memory{bytes: fair.New(limit, waiting, wait)}
}

// ChargeMemory counts n more bytes of memory for a request, before the handler
// allocates them. They are charged to the client of the request and given back when
// the request ends, or by ReleaseMemory. The handler may have to wait for them; the
// request has no slot meanwhile. It should hold nothing else that others need, and as
// little memory as it can: two that wait for each other's memory both get the error.
// The error, fair.ErrFull or the cause of the request's context, is for the handler to
// return. Without a budget nothing is counted. Like the ResponseWriter it is for one
// goroutine at a time.
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

// TryChargeMemory is ChargeMemory without waiting: it reports whether the bytes were
// free. A handler uses it for what it could only measure by allocating it, and drops
// that before it waits.
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

// ReleaseMemory gives n bytes that were charged to a request back before it ends.
func ReleaseMemory(w http.ResponseWriter, n int64) {
	r, ok := w.(*response)
	if !ok || r.memory == nil || n <= 0 {
		return
	}
	if n > r.charged {
		panic("web: more memory is given back than was charged")
	}
	r.charged -= n
	r.memory.bytes.Release(r.client, n)
}

// releaseMemory gives all memory of a request back.
func (r *response) releaseMemory() { ReleaseMemory(r, r.charged) }

// TakePeak returns the most bytes that were used at once since the last call.
func (m *Memory) TakePeak() int64 { return m.bytes.TakePeak() }

// Stats is the state of the budget, in bytes.
func (m *Memory) Stats() fair.Stats { return m.bytes.Stats() }
