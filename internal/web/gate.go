package web

import (
	"math/rand/v2"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"holdfast/internal/fairshare"
)

// Gate limits the requests that are processed at once, and shares the slots among
// clients (package fairshare). Requests without a slot wait for a short time and are then
// rejected, which is cheap, so that the others are answered in time. It is safe for
// concurrent use.
type Gate struct {
	slots *fairshare.Pool
	open  atomic.Int64 // requests, with a slot or without
}

// NewGate returns a gate with limit slots. As many requests again may wait for one,
// each at most as long as wait. An eighth of the slots is a reserve that a client
// cannot use above its share.
func NewGate(limit int, wait time.Duration) *Gate {
	limit = max(limit, 1)
	return &Gate{slots: fairshare.New(int64(limit), limit, wait)}
}

// Resize changes the arguments of NewGate. Requests keep their slots.
func (g *Gate) Resize(limit int, wait time.Duration) {
	g.slots.Resize(int64(limit), max(limit, 1), wait)
}

// Identify sets the client of a request after its credentials were verified: a name
// that is unique among all services, such as "sync 17". Resources are charged to it,
// and before that to the IP address; memory that is already charged is moved. w is the
// ResponseWriter of the handler.
func Identify(w http.ResponseWriter, client string) {
	if r, ok := w.(*response); ok {
		if r.charged > 0 {
			r.memory.bytes.Move(r.client, client, r.charged)
		}
		r.client = client
	}
}

// AcquireSlot waits for a slot of the gate, unless the request has one, and for its
// turn at the database of the service, which the more expensive requests of a client get
// later (fairshare.Turns). A handler calls it when it has all that it
// needs to work: after it has verified the credentials and read the body, so that a
// slow client holds neither. Both are released when the response begins, and by
// ReleaseSlot. The handler returns the error.
func AcquireSlot(w http.ResponseWriter, req *http.Request) error {
	r, ok := w.(*response)
	if !ok || r.gate == nil || r.slot != "" {
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

// WithSlot calls fn, which uses the database before the request is complete, with a slot:
// to look up credentials, for example. It releases the slot after that, unless the
// request had one.
func WithSlot(w http.ResponseWriter, req *http.Request, fn func() error) error {
	r, ok := w.(*response)
	if !ok || r.gate == nil || r.slot != "" {
		return fn()
	}
	if err := AcquireSlot(w, req); err != nil {
		return err
	}
	defer ReleaseSlot(w)
	return fn()
}

// ReleaseSlot releases the slot of a request before a wait, so that others can work.
func ReleaseSlot(w http.ResponseWriter) {
	if r, ok := w.(*response); ok && r.slot != "" {
		r.endTurn()
		r.gate.slots.Release(r.slot, 1)
		r.slot = ""
	}
}

// endTurn ends the turn of a request that has one. A request that waits for a node of its
// database loses it, so that those of other nodes get one.
func (r *response) endTurn() {
	if r.inTurn.CompareAndSwap(true, false) {
		r.turns.Release(r.turn, r.meter.Stop())
	}
}

// WithoutSlot calls wait without the slot of the request.
func WithoutSlot(w http.ResponseWriter, req *http.Request, wait func() error) error {
	r, ok := w.(*response)
	if !ok || r.slot == "" {
		return wait()
	}
	ReleaseSlot(w)
	if err := wait(); err != nil {
		return err
	}
	return AcquireSlot(w, req)
}

// Client returns the client to which a request is charged: that of Identify, or its IP
// address.
func Client(w http.ResponseWriter) string {
	if r, ok := w.(*response); ok {
		return r.chargedTo()
	}
	return ""
}

// ClientIP returns the IP address of the client of a request, as Resolver.Client does.
func ClientIP(w http.ResponseWriter) (ip netip.Addr, ok bool) {
	if r, ok := w.(*response); ok {
		return r.resolver.Client(r.request)
	}
	return netip.Addr{}, false
}

// GateStats are the numbers of requests at a gate.
type GateStats struct {
	Slots   int   // maximum that are processed at once
	Active  int   // being processed, with a slot
	Waiting int   // for a slot
	Idle    int   // without a slot: receiving the body, sending the response, or waiting for something else
	Clients int   // that have these requests
	Shed    int64 // rejected so far
}

// Stats returns the numbers of requests at the gate.
func (g *Gate) Stats() GateStats {
	s := g.slots.Stats()
	return GateStats{
		Slots: int(s.Capacity), Active: int(s.Used), Waiting: s.Waiting, Clients: s.Clients, Shed: s.Refused,
		Idle: max(int(g.open.Load()-s.Used)-s.Waiting, 0), // one may have ended in between
	}
}

// Load returns the used share of the slots plus the used share of the queue: 0 is
// idle, 1 is full, 2 means that requests are rejected.
func (g *Gate) Load() float64 { return g.slots.Load() }

// Delays that clients are asked for.
const (
	retryAfter   = 10 * time.Second // after a rejected request; at most twice that
	leastBackoff = time.Minute      // for periodic clients while the gate is just full
	mostBackoff  = 10 * time.Minute // and while it rejects requests
)

// Backoff returns how long clients without urgent requests should wait; 0 while there
// are free slots.
func (g *Gate) Backoff() time.Duration {
	over := g.Load() - 1
	if over < 0 {
		return 0
	}
	return leastBackoff + time.Duration(over*float64(mostBackoff-leastBackoff))
}

// retryAfterSeconds adds a random part, so that clients that were rejected together do
// not return together.
func retryAfterSeconds() int {
	return int((retryAfter + rand.N(retryAfter)) / time.Second)
}
