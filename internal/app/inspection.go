package app

import (
	"context"
	"slices"
	"sync"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
)

// inspection has the findings of the latest check of the running server, for the console. It
// checks only when the console asks for it.
type inspection struct {
	asked chan struct{} // has room for one

	mu    sync.Mutex
	at    time.Time // of the latest check; zero: there was none
	found []service.Finding
	done  chan struct{} // closed by the next check
}

func newInspection() *inspection {
	return &inspection{asked: make(chan struct{}, 1), done: make(chan struct{})}
}

// run checks whenever it is asked to, until ctx ends.
func (i *inspection) run(ctx context.Context, now clock.Clock, check func(context.Context) []service.Finding) {
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

// latest returns the findings of the latest check and its time. If they are older than a
// maximum, it asks for others and waits for them, but not longer than patience.
func (i *inspection) latest(ctx context.Context, now time.Time, oldest, patience time.Duration) (found []service.Finding, at time.Time) {
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

// checkRunning checks what Check does, except for the addresses, on which this server listens.
func (a *App) checkRunning(ctx context.Context) (found []service.Finding) {
	c := &check{cfg: a.cfg, data: a.data}
	secrets := c.secrets()
	for _, p := range slices.Concat(a.cfg.report.Warnings, a.cfg.report.Notes) {
		found = append(found, problem(service.Warning, p))
	}
	var databases []service.Finding
	for _, s := range a.opened {
		start := "start the database, or correct " + s.Name + ".database_url"
		limited, cancel := context.WithTimeout(ctx, checkTimeout)
		databases = append(databases, c.opened(limited, a, s, start)...)
		cancel()
	}
	found = slices.Concat(found, c.checkFolders(), secrets, databases, c.distributions(), c.certificate())
	if a.cfg.Server.PublicURL != "" {
		found = append(found, checkPublicURL(ctx, a.cfg))
	}
	for _, s := range a.cfg.enabled() {
		if s.Probe != nil {
			found = append(found, s.Probe(ctx)...)
		}
	}
	return found
}
