// Package clock is how time enters Holdfast: as a function that is passed in,
// so that a test can turn the hands, back as well as forward.
package clock

import (
	"sync"
	"time"
)

// Clock returns the present moment. System is the only one outside tests.
type Clock func() time.Time

// System reads the machine's clock.
func System() time.Time { return time.Now() }

// Manual is a clock that stands still until it is set. It is safe for
// concurrent use.
type Manual struct {
	mu  sync.Mutex
	now time.Time
}

// NewManual returns a clock that shows t.
func NewManual(t time.Time) *Manual { return &Manual{now: t} }

// Now is the Clock.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Set moves the hands to t, forward or back.
func (m *Manual) Set(t time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = t
}

// Advance moves the hands by d, which may be negative.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
}
