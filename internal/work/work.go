// Package work measures a request's working time, without waits for database servers, commits or locks.
//
// Time without a processor counts as work, because the Go runtime does not report it.
package work

import (
	"context"
	"sync"
	"time"
)

// Meter measures work between Start and Stop. Wait, Resume and Add may be called at any time. It is safe for concurrent
// use. The methods of a nil *Meter, as Of returns it, do nothing, but Start, Stop, OnYield and Yield panic.
type Meter struct {
	mu      sync.Mutex
	running bool
	waits   int
	since   time.Time
	worked  time.Duration
	yield   func()
}

// Start begins a measurement at 0.
func (m *Meter) Start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running, m.since, m.worked = true, time.Now(), 0
}

// Stop ends the measurement and returns the work since Start.
func (m *Meter) Stop() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running && m.waits == 0 {
		m.worked += time.Since(m.since)
	}
	m.running = false
	return m.worked
}

// OnYield sets the function that Yield calls, in place of the one before.
func (m *Meter) OnYield(fn func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.yield = fn
}

// Yield declares a long wait with an unknown end, so that the request need not block others.
func (m *Meter) Yield() {
	m.mu.Lock()
	fn := m.yield
	m.mu.Unlock()
	if fn != nil {
		fn()
	}
}

// Wait begins a wait, which Resume ends. Overlapping waits count once.
func (m *Meter) Wait() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waits++; m.waits == 1 && m.running {
		m.worked += time.Since(m.since)
	}
}

func (m *Meter) Resume() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waits--; m.waits == 0 {
		m.since = time.Now()
	}
}

// Add adds work that another goroutine did for the request, e.g. the single writer of a database file.
func (m *Meter) Add(d time.Duration) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.worked += d
}

// measured is a context with a meter.
type measured struct {
	context.Context //nolint:containedctx // it is one
	meter           *Meter
}

type key struct{}

func (c *measured) Value(k any) any {
	if _, ok := k.(key); ok {
		return c.meter
	}
	return c.Context.Value(k)
}

// With returns a context for which Of returns m.
func With(ctx context.Context, m *Meter) context.Context { return &measured{ctx, m} }

// Of returns a context's meter, or nil.
func Of(ctx context.Context) *Meter {
	m, _ := ctx.Value(key{}).(*Meter)
	return m
}
