package syncstorage

import (
	"context"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/fault"
)

// streams bounds the listings that are read from the engine while their
// clients take them: each holds a connection and a snapshot of the engine for
// as long as its client likes, and clients that take nothing would soon hold
// all there are.
type streams struct {
	places chan struct{}
	wait   time.Duration
	now    clock.Clock
}

// streamTime is how long a client may take for a listing that is streamed:
// 100 MB at 170 KB a second. A snapshot that is older costs everybody, because
// nothing that was overwritten since can be thrown away.
const streamTime = 10 * time.Minute

var (
	errStreams    = fault.New(fault.Unavailable, "too many large listings are under way")
	errStreamTime = fault.New(fault.Unavailable, "the client takes too long for the listing")
)

func newStreams(limit int, wait time.Duration, now clock.Clock) streams {
	return streams{places: make(chan struct{}, max(limit, 1)), wait: wait, now: now}
}

// try takes a place if one is free.
func (s streams) try() bool {
	select {
	case s.places <- struct{}{}:
		return true
	default:
		return false
	}
}

// enter waits for a place; fault.Unavailable when none becomes free in time.
func (s streams) enter(ctx context.Context) error {
	timer := time.NewTimer(s.wait)
	defer timer.Stop()
	select {
	case s.places <- struct{}{}:
		return nil
	case <-timer.C:
		return errStreams
	case <-ctx.Done():
		return fault.Wrap(fault.Unavailable, "the request ended before its turn", ctx.Err())
	}
}

func (s streams) leave() { <-s.places }

// hold makes a listing give its place back when it is closed, and end when its
// time is over.
func (s streams) hold(l *Listing) {
	items, release, end := l.Items, l.release, s.now().Add(streamTime)
	l.Items = func(yield func(*BSO, error) bool) {
		for b, err := range items {
			if err == nil && s.now().After(end) {
				b, err = nil, errStreamTime
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
	l.release = func() {
		if release != nil {
			release()
		}
		s.leave()
	}
}
