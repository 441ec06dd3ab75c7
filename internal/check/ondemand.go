package check

import (
	"context"
	"sync"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
)

// OnDemand has the findings of the latest check of a running server, for the console. It
// checks only when the console asks for it.
type OnDemand struct {
	asked chan struct{} // has room for one

	mu    sync.Mutex
	at    time.Time // of the latest check; zero: there was none
	found []service.Finding
	done  chan struct{} // closed by the next check
}

// NewOnDemand returns one without findings.
func NewOnDemand() *OnDemand {
	return &OnDemand{asked: make(chan struct{}, 1), done: make(chan struct{})}
}

// Run checks whenever it is asked to, until ctx ends.
func (i *OnDemand) Run(ctx context.Context, now clock.Clock, check func(context.Context) []service.Finding) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-i.asked:
		}
		found := check(ctx)
		if ctx.Err() != nil {
			return // the findings may only say so
		}
		i.mu.Lock()
		i.at, i.found = now(), found
		close(i.done)
		i.done = make(chan struct{})
		i.mu.Unlock()
	}
}

// Latest returns the findings of the latest check and its time. If they are older than a
// maximum, it asks for others and waits for them, but not longer than patience.
func (i *OnDemand) Latest(ctx context.Context, now time.Time, oldest, patience time.Duration) (found []service.Finding, at time.Time) {
	i.mu.Lock()
	found, at, done := i.found, i.at, i.done
	i.mu.Unlock()
	if !at.IsZero() && now.Sub(at) < oldest {
		return found, at
	}
	select {
	case i.asked <- struct{}{}:
	default: // it was asked already
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	case <-ctx.Done():
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.found, i.at
}
