// Package work measures how long a request works, without the time for which it waits
// for something else: a database server, a commit, a lock.
//
// The time in which a request could work but does not get a processor counts as work,
// because the Go runtime does not report it.
package work

import (
	"context"
	"sync"
	"time"
)

// Meter measures the work between Start and Stop. It is safe for concurrent use, and a
// nil Meter measures nothing.
type Meter struct {
	mu      sync.Mutex
	running bool
	waits   int       // under way
	since   time.Time // work is measured since then while there are no waits
	worked  time.Duration
	yield   func()
}

// Start begins a measurement.
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

// OnYield sets what Yield calls.
func (m *Meter) OnYield(fn func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.yield = fn
}

// Yield says that the request has waited for long and that the end of the wait is not known,
// so that it need not keep others from working.
func (m *Meter) Yield() {
	m.mu.Lock()
	fn := m.yield
	m.mu.Unlock()
	if fn != nil {
		fn()
	}
}

// Wait is called before a wait, and Resume after it. Waits may overlap: there is no work
// while one of them lasts.
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

// Resume ends a wait.
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

// Add adds work that another goroutine did while the request waited for it.
func (m *Meter) Add(d time.Duration) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.worked += d
}

// measured is a context with a meter. It costs one allocation, unlike context.WithValue
// with a value that is no pointer.
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

// With returns a context whose work the meter measures.
func With(ctx context.Context, m *Meter) context.Context { return &measured{ctx, m} }

// Of returns the meter of a context, or nil.
func Of(ctx context.Context) *Meter {
	m, _ := ctx.Value(key{}).(*Meter)
	return m
}
