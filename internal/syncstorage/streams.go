package syncstorage

import (
	"context"
	"errors"
	"strconv"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/fair"
	"holdfast/internal/fault"
)

// streams bounds the listings that are read from the engine while their
// clients take them: each holds a connection and a snapshot of the engine for
// as long as its client likes, and clients that take nothing would soon hold
// all there are.
type streams struct {
	places *fair.Pool // of users
	now    clock.Clock
}

// streamTime is how long a client may take for a listing that is streamed:
// 100 MB at 170 KB a second. A snapshot that is older costs everybody, because
// nothing that was overwritten since can be thrown away.
const streamTime = 10 * time.Minute

var (
	errListings   = fault.New(fault.Unavailable, "too many large lists are being read: retry later")
	errStreamTime = fault.New(fault.Unavailable, "the client read the list too slowly")
)

func newStreams(limit int, wait time.Duration, now clock.Clock) streams {
	limit = max(limit, 1)
	limit = max(limit, 1)
	return streams{fair.New(int64(limit), 64*limit, wait), now}
}

// try takes a place if the user may have one at once.
func (s streams) try(o Owner) bool { return s.places.TryAcquire(o.key(), 1) }

// enter waits for a place; fault.Unavailable when none becomes free in time.
func (s streams) enter(ctx context.Context, o Owner) error {
	switch err := s.places.Acquire(ctx, o.key(), 1); {
	case errors.Is(err, fair.ErrFull):
		return errListings
	case err != nil:
		return fault.Wrap(fault.Unavailable, "the request timed out waiting for its turn", err)
	}
	return nil
}

// take takes a place. It calls idle around the wait if there has to be one.
func (s streams) take(ctx context.Context, o Owner, idle func(wait func() error) error) error {
	if s.try(o) {
		return nil
	}
	entered := false
	err := idle(func() error {
		err := s.enter(ctx, o)
		entered = err == nil
		return err
	})
	if err != nil && entered { // idle has failed after the wait
		s.leave(o)
	}
	return err
}

func (s streams) leave(o Owner) { s.places.Release(o.key(), 1) }

// hold makes a listing give its place back when it is closed, and end when its
// time is over.
func (s streams) hold(o Owner, l *Listing) {
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
		s.leave(o)
	}
}

// key names the user of the storage.
func (o Owner) key() string { return strconv.FormatInt(o.UID, 10) }
