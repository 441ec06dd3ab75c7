package overview

import (
	"context"
	"sync"
	"time"

	"holdfast/internal/clock"
)

const (
	listFresh    = 10 * time.Second       // minimum age before a list is reread
	listPatience = 500 * time.Millisecond // per page, which then shows the old list
)

// listing caches a list from a slow target. Reads run in the background, never concurrently.
type listing[T any] struct {
	rests int // pause after a read, as a multiple of its duration

	mu      sync.Mutex
	of      string        // the list's name, e.g. a URL; another name empties the list
	all     T             // from the latest successful read
	at      time.Time     // latest read; zero: none finished, or invalidated
	err     error         // from the latest read
	took    time.Duration // how long the latest read took
	reading chan struct{} // closed when the running read ends; nil: none runs
}

// listState tells a page how old its list is.
type listState struct {
	At      time.Time `json:"at,omitzero" doc:"time of the read; missing: first read in progress"`
	Problem string    `json:"problem,omitempty" doc:"error of the latest read"`
}

// get returns the list, and starts a read if it is old. It waits up to listPatience for the read; then it returns the
// previous list, or the zero value.
func (l *listing[T]) get(ctx context.Context, of string, now clock.Clock, read func(context.Context) (T, error)) T {
	if reading := l.ask(ctx, of, now, read); reading != nil {
		patience := time.NewTimer(listPatience)
		defer patience.Stop()
		select {
		case <-reading:
		case <-patience.C:
		case <-ctx.Done():
		}
	}
	all, _ := l.latest()
	return all
}

// latest returns the list without starting a read. at is zero before the first read.
func (l *listing[T]) latest() (all T, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all, l.at
}

// ask starts a read if the list is old. The channel is closed when the running read ends; nil: no read.
func (l *listing[T]) ask(ctx context.Context, of string, now clock.Clock, read func(context.Context) (T, error)) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of != of {
		var none T
		l.of, l.all, l.at, l.err = of, none, time.Time{}, nil
	}
	if l.reading == nil && (l.at.IsZero() || now().Sub(l.at).Abs() > listFresh+time.Duration(l.rests)*l.took) {
		l.reading = make(chan struct{})
		go l.read(context.WithoutCancel(ctx), of, now, read)
	}
	return l.reading
}

// read reads the list, without the request's cancellation, since others wait for it, too. It drops the result if the
// setting changed meanwhile.
func (l *listing[T]) read(ctx context.Context, of string, now clock.Clock, read func(context.Context) (T, error)) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	began := time.Now()
	all, err := read(ctx)
	took := time.Since(began)
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.reading)
	l.reading = nil
	if l.of != of { // the setting changed meanwhile
		return
	}
	l.at, l.err, l.took = now(), err, took
	if err == nil {
		l.all = all // after an error, the older list is better than none
	}
}

// expire makes the next call read the list again. Until then the old list is shown.
func (l *listing[T]) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = time.Time{}
}

// state returns when the list was read, and the latest error.
func (l *listing[T]) state() (s listState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.At = l.at; l.err != nil {
		s.Problem = failureText(l.err)
	}
	return s
}
