package check

import (
	"context"
	"sync"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
)

// OnDemand caches the findings for a running server's console, and checks only on request.
type OnDemand struct {
	asked chan struct{}

	mu    sync.Mutex
	at    time.Time
	found []service.Finding
	done  chan struct{}
}

// NewOnDemand returns an OnDemand without findings.
func NewOnDemand() *OnDemand {
	return &OnDemand{asked: make(chan struct{}, 1), done: make(chan struct{})}
}

// Run checks when Latest asks for it, until ctx ends.
func (i *OnDemand) Run(ctx context.Context, now clock.Clock, check func(context.Context) []service.Finding) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-i.asked:
		}
		findings := check(ctx)
		if ctx.Err() != nil {
			return // shutting down: findings may be misleading
		}
		i.mu.Lock()
		i.at, i.found = now(), findings
		close(i.done)
		i.done = make(chan struct{})
		i.mu.Unlock()
	}
}

// Latest returns the latest findings and their time. If older than oldest, it requests new findings and waits up to
// patience.
func (i *OnDemand) Latest(ctx context.Context, now time.Time, oldest, patience time.Duration) (findings []service.Finding, at time.Time) {
	i.mu.Lock()
	findings, at, done := i.found, i.at, i.done
	i.mu.Unlock()
	if !at.IsZero() && now.Sub(at) < oldest {
		return findings, at
	}
	select {
	case i.asked <- struct{}{}:
	default:
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
