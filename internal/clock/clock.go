// Package clock provides the current time as a function, which tests can replace.
package clock

import (
	"fmt"
	"sync"
	"time"
)

// Clock returns the current time. Pass it to code that needs the time, so that tests can replace it.
type Clock func() time.Time

// System is the Clock of the machine: pass it without calling it.
func System() time.Time { return time.Now() }

// Offset describes for the log how far a client's clock is off. ahead is negative if the clock is behind.
func Offset(ahead time.Duration) string {
	direction := "ahead"
	if ahead < 0 {
		direction = "behind"
	}
	return fmt.Sprintf("the client's clock is %s %s", ahead.Abs().Round(time.Second), direction)
}

// Manual is a clock that only Set and Advance change. It is safe for concurrent use.
type Manual struct {
	mu  sync.Mutex
	now time.Time
}

// NewManual returns a clock that shows t. Pass its method Now as a Clock.
func NewManual(t time.Time) *Manual { return &Manual{now: t} }

func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Set makes the clock show t, which may be earlier.
func (m *Manual) Set(t time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = t
}

// Advance moves the clock forward.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
}
