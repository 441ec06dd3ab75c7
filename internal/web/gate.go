package web

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"holdfast/internal/fault"
)

// Gate bounds the requests that are worked on at once. Those that find it full
// wait a short while; beyond that they are turned away, which costs little, so
// that the others are answered in time. It is safe for concurrent use.
type Gate struct {
	places  chan struct{}
	wait    time.Duration
	waiting atomic.Int64
	shed    atomic.Int64
}

// NewGate returns a gate that lets limit requests in at once. As many again may
// wait for a place, each at most as long as wait.
func NewGate(limit int, wait time.Duration) *Gate {
	return &Gate{places: make(chan struct{}, max(limit, 1)), wait: wait}
}

// errShed answers a request that found no place.
var errShed = fault.New(fault.Unavailable, "the server has too much to do")

// enter takes a place, which the caller gives back by leave. fault.Unavailable
// when none becomes free in time; the error of ctx when that ends first.
func (g *Gate) enter(ctx context.Context) error {
	select {
	case g.places <- struct{}{}:
		return nil
	default:
	}
	defer g.waiting.Add(-1)
	if g.waiting.Add(1) > int64(cap(g.places)) {
		g.shed.Add(1)
		return errShed
	}
	timer := time.NewTimer(g.wait)
	defer timer.Stop()
	select {
	case g.places <- struct{}{}:
		return nil
	case <-timer.C:
		g.shed.Add(1)
		return errShed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g *Gate) leave() { <-g.places }

// ReleaseSlot gives back the place that a request has at the gate of its service: for a
// handler that is about to wait, while others could work. w is the one that the
// handler was given.
func ReleaseSlot(w http.ResponseWriter) {
	if r, ok := w.(*response); ok && r.inside {
		r.inside = false
		r.gate.leave()
	}
}

// ReacquireSlot takes a place at the gate again. The error, of which there is none when
// the request has its place, is for the handler to return.
func ReacquireSlot(w http.ResponseWriter, req *http.Request) error {
	r, ok := w.(*response)
	if !ok || r.gate == nil || r.inside {
		return nil
	}
	if err := r.gate.enter(req.Context()); err != nil {
		return err
	}
	r.inside = true
	return nil
}

// GateStats is how many requests are at a gate.
type GateStats struct {
	Places  int   // as many are worked on at once
	Inside  int   // worked on now
	Waiting int   // for a place
	Shed    int64 // turned away so far
}

// Stats counts the requests at the gate.
func (g *Gate) Stats() GateStats {
	waiting := min(int(g.waiting.Load()), cap(g.places)) // one more is about to be turned away
	return GateStats{Places: cap(g.places), Inside: len(g.places), Waiting: waiting, Shed: g.shed.Load()}
}

// Load is the share of the places that is taken, and over 1 the share of those
// that may wait: 0 idle, 1 full, 2 turning requests away.
func (g *Gate) Load() float64 {
	c := g.Stats()
	return float64(c.Inside+c.Waiting) / float64(c.Places)
}

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
