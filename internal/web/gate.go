package web

import (
	"math/rand/v2"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"holdfast/internal/fairshare"
)

// Gate limits concurrent requests and shares its slots among clients (package fairshare). Make it with NewGate. It is
// safe for concurrent use.
type Gate struct {
	slots *fairshare.Pool // clients by name; a slot is a unit
	open  atomic.Int64    // requests being served, with or without a slot
}

// NewGate returns a gate with limit slots, at least 1. As many more requests may wait for a slot, each up to wait;
// others are refused with fairshare.ErrFull, as are all that find no slot if wait is 0. Pool.Acquire says who is next. A
// single client never gets the reserve (fairshare.Reserve), so with 2 slots its requests run one at a time. Pass the gate
// in Options.Gate.
func NewGate(limit int, wait time.Duration) *Gate {
	limit = max(limit, 1)
	return &Gate{slots: fairshare.New(int64(limit), limit, wait)}
}

// Resize changes NewGate's arguments while requests are served, when settings are reloaded. Requests keep their slots,
// even if these are more than limit.
func (g *Gate) Resize(limit int, wait time.Duration) {
	g.slots.Resize(int64(limit), max(limit, 1), wait)
}

// Identify sets a request's client, a name unique among all services (e.g. "sync 17"), once its credentials are
// verified. Memory already charged to the IP address is then charged to the client. A slot that the request has stays
// charged to the IP address, so call Identify before AcquireSlot. It does nothing if the request does not come from a
// Mux, as in tests that call a handler directly.
//
// Identify and the functions below take the handler's request, or one with a context derived from its context. Only the
// handler's goroutine may call them, one at a time.
func Identify(req *http.Request, client string) {
	if r := responseOf(req); r != nil {
		if n := r.charged + r.header; n > 0 {
			r.memory.bytes.Move(r.client, client, n)
		}
		r.client = client
	}
}

// AcquireSlot waits for a slot, up to the gate's wait, and then for a turn at the service's database (fairshare.Turns),
// up to Patience.Wait. A handler calls it after verifying credentials and reading the body, so that slow clients hold
// neither. Slot and turn are released when the
// response begins, when the handler returns, or by ReleaseSlot. A second call does nothing while the request has a
// slot; after the response began it waits for another slot, as a long answer does that is read in parts. The error is
// fairshare.ErrFull (the handler returns it, and the Mux adds Retry-After) or the cause of the request's context.
// Without Options.Gate, or for a request that does not come from a Mux, there is no limit.
func AcquireSlot(req *http.Request) error {
	r := responseOf(req)
	if r == nil || r.gate == nil || r.slot != "" {
		return nil
	}
	client := r.chargedTo()
	if err := r.gate.slots.Acquire(req.Context(), client, 1); err != nil {
		return err
	}
	if r.turns != nil {
		var err error
		if r.turn, err = r.turns.Acquire(req.Context(), client, r.kind); err != nil {
			r.gate.slots.Release(client, 1)
			return err
		}
		r.inTurn.Store(true)
		r.meter.OnYield(r.endTurn)
		r.meter.Start()
	}
	r.slot = client
	return nil
}

// WithSlot calls fn with a slot, e.g. to look up credentials in the database before the body is read. It then
// releases the slot unless the request already had one. It returns AcquireSlot's errors, and fn's.
func WithSlot(req *http.Request, fn func() error) error {
	r := responseOf(req)
	if r == nil || r.gate == nil || r.slot != "" {
		return fn()
	}
	if err := AcquireSlot(req); err != nil {
		return err
	}
	defer r.releaseSlot()
	return fn()
}

// ReleaseSlot releases a request's slot early, e.g. before the request waits for another server. It may be called
// without a slot.
func ReleaseSlot(req *http.Request) {
	if r := responseOf(req); r != nil {
		r.releaseSlot()
	}
}

func (r *response) releaseSlot() {
	if r.slot != "" {
		r.endTurn()
		r.gate.slots.Release(r.slot, 1)
		r.slot = ""
	}
}

// endTurn releases the request's turn. A request that waits for its database node ends its turn early, so as not to
// delay requests for other nodes.
func (r *response) endTurn() {
	if r.inTurn.CompareAndSwap(true, false) {
		r.turns.Release(r.turn, r.meter.Stop())
	}
}

// WithoutSlot calls wait without the request's slot and turn, e.g. for a call to another server. Afterwards it acquires
// both again (AcquireSlot) if the request had a slot, which may fail. If wait fails, WithoutSlot returns its error, and
// the request has no slot.
func WithoutSlot(req *http.Request, wait func() error) error {
	r := responseOf(req)
	if r == nil || r.slot == "" {
		return wait()
	}
	r.releaseSlot()
	if err := wait(); err != nil {
		return err
	}
	return AcquireSlot(req)
}

// Client returns the client charged for a request: the name set by Identify, or "address " and the IP network. It is
// "" outside a Mux.
func Client(req *http.Request) string {
	if r := responseOf(req); r != nil {
		return r.chargedTo()
	}
	return ""
}

// ClientIP returns the client's IP address; see Resolver.Client. ok is false outside a Mux.
func ClientIP(req *http.Request) (ip netip.Addr, ok bool) {
	if r := responseOf(req); r != nil {
		return r.resolver.Client(r.request)
	}
	return netip.Addr{}, false
}

// GateStats is a gate's state, for metrics and the console.
type GateStats struct {
	Slots   int   // the limit
	Active  int   // requests with a slot
	Waiting int   // requests that wait for a slot
	Idle    int   // requests without a slot that do not wait for it, e.g. while a body arrives
	Clients int   // with a slot or waiting
	Shed    int64 // requests that got no slot since the start, also because their client went away; turns do not count
}

// Stats returns the gate's state now.
func (g *Gate) Stats() GateStats {
	s := g.slots.Stats()
	return GateStats{
		Slots: int(s.Capacity), Active: int(s.Used), Waiting: s.Waiting, Clients: s.Clients, Shed: s.Refused,
		Idle: max(int(g.open.Load()-s.Used)-s.Waiting, 0), // a request may have ended in between
	}
}

// Load is 0 if the gate is idle, 1 if all slots are used, and 2 if the queue is full, too; see Pool.Load.
func (g *Gate) Load() float64 { return g.slots.Load() }

// These are the delays requested from clients.
const (
	retryAfter   = 10 * time.Second // after a rejected request; randomly up to twice that
	leastBackoff = time.Minute      // for periodic clients when the gate is just full
	mostBackoff  = 10 * time.Minute // for periodic clients when the gate rejects requests
)

// Backoff returns how long non-urgent clients should wait: 0 while slots are free, and otherwise 1 to 10 minutes, in
// proportion to the queue.
func (g *Gate) Backoff() time.Duration {
	over := g.Load() - 1
	if over < 0 {
		return 0
	}
	return leastBackoff + time.Duration(over*float64(mostBackoff-leastBackoff))
}

// retryAfterSeconds is partly random, so that clients rejected together do not return together.
func retryAfterSeconds() int {
	return int((retryAfter + rand.N(retryAfter)) / time.Second)
}
