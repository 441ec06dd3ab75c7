package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
)

const (
	readyTimeout   = 2 * time.Second  // per service check
	readyPause     = 5 * time.Second  // between checks
	unreadyPause   = time.Second      // between checks while a service is not ready
	reasonInterval = 10 * time.Second // between log lines if a service's reason changes

	heartbeatAge = time.Second // how long /__heartbeat__ repeats its answer
)

// readiness remembers which services were ready, for log lines and the status page.
type readiness struct {
	log *slog.Logger

	mu      sync.Mutex
	newest  time.Time           // when the newest noted check began
	unready map[string]*outage  // services that are not ready, by name
	failed  map[string]error    // why the latest attempt to settle failed
	ready   map[string]struct{} // services that were ready at least once
	server  bool                // all services were ready at the newest check
}

// outage is the time since which a service is not ready.
type outage struct {
	began  time.Time
	logged time.Time // when its latest line was logged
	reason string
}

func newReadiness(log *slog.Logger) *readiness {
	return &readiness{log: log, unready: map[string]*outage{}, ready: map[string]struct{}{}}
}

// note records a check of all services. Checks overlap, so note ignores results of older checks.
func (r *readiness) note(began time.Time, services []string, unready map[string]error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if began.Before(r.newest) {
		return
	}
	r.newest = began
	for _, name := range services {
		if err := unready[name]; err != nil {
			r.noteUnready(began, name, err)
		} else {
			r.noteReady(began, name)
		}
	}
	if now := len(r.unready) == 0; now != r.server {
		r.server = now
		if now {
			r.log.Info("server is ready", "services", services)
		}
	}
}

// noteUnready logs that an outage began, and another reason at most every reasonInterval.
func (r *readiness) noteUnready(began time.Time, name string, err error) {
	o, reason := r.unready[name], errcode.Message(err)
	if o == nil {
		o = &outage{began: began}
		r.unready[name] = o
	} else if o.reason == reason || began.Sub(o.logged) < reasonInterval {
		return
	}
	o.logged, o.reason = began, reason
	r.log.Warn("service is not ready", "service", name, "error", err)
}

// noteReady logs that an outage ended.
func (r *readiness) noteReady(began time.Time, name string) {
	if o := r.unready[name]; o != nil {
		r.log.Info("service is ready", "service", name, "not_ready_for", began.Sub(o.began).Round(time.Millisecond))
		delete(r.unready, name)
	}
	r.ready[name] = struct{}{}
}

// isReady answers from the newest check, without asking the service.
func (r *readiness) isReady(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ready := r.ready[name]
	return ready && r.unready[name] == nil
}

// setFailed replaces the previous attempt's errors.
func (r *readiness) setFailed(failed map[string]error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = failed
}

// failure returns nil before the first attempt.
func (r *readiness) failure(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed[name]
}

// unready asks all services at once, for up to readyTimeout, and returns the errors by name. Empty: the server is
// ready.
func (a *App) unready(ctx context.Context) map[string]error {
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	errs := make([]error, len(a.opened))
	var checks sync.WaitGroup
	for i, s := range a.opened {
		checks.Go(func() { errs[i] = a.checkReady(bounded, s) })
	}
	checks.Wait()
	var names []string
	unready := map[string]error{}
	for i, s := range a.opened {
		names = append(names, s.Name)
		if errs[i] != nil {
			unready[s.Name] = errs[i]
		}
	}
	if ctx.Err() == nil { // otherwise the errors only mean that the caller left
		a.ready.note(began, names, unready)
	}
	return unready
}

// heartbeat is a cached answer.
type heartbeat struct {
	mu      sync.Mutex
	ended   time.Time
	unready map[string]error
}

// heartbeat caches the result of unready for heartbeatAge, because unauthenticated requests do not hold a gate slot.
func (a *App) heartbeat(ctx context.Context) map[string]error {
	h := &a.lastHeartbeat
	h.mu.Lock()
	defer h.mu.Unlock()
	if age := a.now().Sub(h.ended); age < 0 || age >= heartbeatAge {
		h.unready = a.unready(context.WithoutCancel(ctx)) // for the other callers, too
		h.ended = a.now()
	}
	return h.unready
}

// checkReady returns the first reason why a service cannot be used: its database, its secrets, or its start.
func (a *App) checkReady(ctx context.Context, s *opened) error {
	if s.Ready != nil {
		if err := s.Ready(ctx); err != nil {
			return err
		}
	}
	if err := a.guard.Unverified(s.Name); err != nil {
		return err
	}
	return a.ready.failure(s.Name)
}

// start completes the start beside the listeners, and then watches the services until ctx ends. It calls checked after
// the first check of their readiness, which logs a line.
func (a *App) start(ctx context.Context, checked func()) {
	var both sync.WaitGroup
	defer both.Wait()
	tried := make(chan struct{})
	both.Go(func() { a.completeStart(ctx, tried) })
	// The first attempt may fix a service, e.g. by a migration, so readiness is checked afterwards. Migrations may take
	// hours, hence the timeout.
	patience := time.NewTimer(readyTimeout)
	defer patience.Stop()
	select {
	case <-tried:
	case <-patience.C:
	}
	both.Go(func() { a.watchReadiness(ctx, checked) })
}

// completeStart settles the services, and retries until it succeeds. It closes tried after the first attempt.
func (a *App) completeStart(ctx context.Context, tried chan<- struct{}) {
	for first := true; ; first = false {
		failed := a.settle(ctx)
		a.ready.setFailed(failed)
		if first {
			close(tried)
		}
		if len(failed) == 0 || !clock.Sleep(ctx, time.Second) {
			return
		}
	}
}

// watchReadiness asks regularly, so that outages are logged even if nobody asks for /readyz. It calls checked once.
func (a *App) watchReadiness(ctx context.Context, checked func()) {
	for first := true; ; first = false {
		pause := readyPause
		if len(a.unready(ctx)) > 0 {
			pause = unreadyPause
		}
		if first {
			checked()
		}
		if !clock.Sleep(ctx, pause) {
			return
		}
	}
}
