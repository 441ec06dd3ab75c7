package web

import (
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"holdfast/internal/fair"
)

// Gate bounds the requests that are worked on at once, and shares the slots among
// clients (package fair). Requests that find no slot wait a short while; beyond that
// they are turned away, which costs little, so that the others are answered in time.
// It is safe for concurrent use.
type Gate struct {
	slots *fair.Pool
	open  atomic.Int64 // requests, with a slot or without
}

// NewGate returns a gate with limit slots. As many requests again may wait for one,
// each at most as long as wait. An eighth of the slots is a reserve, which a client
// does not get above its share.
func NewGate(limit int, wait time.Duration) *Gate {
	limit = max(limit, 1)
	limit = max(limit, 1)
	return &Gate{slots: fair.New(int64(limit), limit, wait)}
}

// Identify says which client sent a request, once its credentials are verified: a
// name that is unique among all services, such as "sync 17". What the request uses
// is charged to it, and before that to the address that it came from: memory that the
// request has already is charged anew. w is the ResponseWriter that the handler was
// given.
func Identify(w http.ResponseWriter, client string) {
	if r, ok := w.(*response); ok {
		if r.charged > 0 {
			r.memory.bytes.Move(r.client, client, r.charged)
		}
		r.client = client
	}
}

// AcquireSlot takes a slot of the listener's gate for a request, unless it has one, and
// waits for its turn at the service's database. A handler calls it when it has all that
// it needs to work: after it has verified the credentials and read the body, so that a
// client that sends slowly has neither. Both are given back when the answer begins, and
// by ReleaseSlot. The error is for the handler to return.
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
		if err := r.turns.Acquire(req.Context(), client, 1); err != nil {
			r.gate.slots.Release(client, 1)
			return err
		}
	}
	r.slot = client
	return nil
}

// ReleaseSlot gives the slot of a request back, for a handler that is about to wait
// while others could work.
func ReleaseSlot(w http.ResponseWriter) {
	if r, ok := w.(*response); ok && r.slot != "" {
		if r.turns != nil {
			r.turns.Release(r.slot, 1)
		}
		r.gate.slots.Release(r.slot, 1)
		r.slot = ""
	}
}

// WithoutSlot calls wait while the request has no slot.
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

// Client names the client to which a request is charged: the one of Identify, or the
// address that it came from.
func Client(w http.ResponseWriter) string {
	if r, ok := w.(*response); ok {
		return r.chargedTo()
	}
	return ""
}

// GateStats is how many requests are at a gate.
type GateStats struct {
	Places  int   // most that are worked on at once
	Inside  int   // worked on now
	Waiting int   // for a slot
	Idle    int   // without a slot: the body is being received, the answer sent, or something else awaited
	Clients int   // whose requests these are
	Shed    int64 // turned away so far
}

// Stats counts the requests at the gate.
func (g *Gate) Stats() GateStats {
	s := g.slots.Stats()
	return GateStats{
		Places: int(s.Capacity), Inside: int(s.Used), Waiting: s.Waiting, Clients: s.Clients, Shed: s.Refused,
		Idle: max(int(g.open.Load()-s.Used)-s.Waiting, 0), // one may have ended in between
	}
}

// Load is the share of the slots that is taken, plus the share of those that may
// wait: 0 idle, 1 full, 2 turning requests away.
func (g *Gate) Load() float64 { return g.slots.Load() }

// How long clients are asked to stay away.
const (
	retryAfter   = 10 * time.Second // a request that was turned away, at least; at most twice that
	leastBackoff = time.Minute      // clients that sync by the clock, while the gate is just full
	mostBackoff  = 10 * time.Minute // and while it turns requests away
)

// Backoff is how long clients that need not come back soon should stay away: 0
// while there are places.
func (g *Gate) Backoff() time.Duration {
	over := g.Load() - 1
	if over < 0 {
		return 0
	}
	return leastBackoff + time.Duration(over*float64(mostBackoff-leastBackoff))
}

// retryAfterSeconds spreads those that were turned away together, lest they
// come back together.
func retryAfterSeconds() int {
	return int((retryAfter + rand.N(retryAfter)) / time.Second)
}
