package syncstorage

import (
	"context"
	"errors"
	"strconv"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/fairshare"
)

// streams limits listings streamed to clients. Each listing holds a connection and a snapshot, so clients that read
// nothing would soon hold all connections.
type streams struct {
	slots *fairshare.Pool
	now   clock.Clock
}

// streamTime limits the time for receiving a streamed listing: 100 MB at 170 KB/s. An old snapshot slows down the
// whole database, which must keep newer row versions.
const streamTime = 10 * time.Minute

var (
	errListings   = errcode.New(errcode.Unavailable, "too many large lists are being read: retry later")
	errStreamTime = errcode.New(errcode.Unavailable, "the client read the list too slowly")
)

// newStreams limits listings to limit at a time. wait is how long a request may wait for its turn.
func newStreams(limit int, wait time.Duration, now clock.Clock) streams {
	limit = max(limit, 1)
	return streams{fairshare.New(int64(limit), 64*limit, wait), now}
}

// try takes a slot without waiting.
func (s streams) try(o Owner) bool { return s.slots.TryAcquire(o.key(), 1) }

// enter waits for a slot, fairly among users.
func (s streams) enter(ctx context.Context, o Owner) error {
	switch err := s.slots.Acquire(ctx, o.key(), 1); {
	case errors.Is(err, fairshare.ErrFull):
		return errListings
	case err != nil:
		return errcode.Wrap(errcode.Unavailable, "the request timed out waiting for its turn", err)
	}
	return nil
}

// take takes a slot, and waits inside idle if necessary.
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
	if err != nil && entered { // idle failed after the wait
		s.leave(o)
	}
	return err
}

// leave returns the slot.
func (s streams) leave(o Owner) { s.slots.Release(o.key(), 1) }

// hold makes the listing release its slot on close, and end after streamTime.
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

// key names the client in the pool.
func (o Owner) key() string { return strconv.FormatInt(o.UID, 10) }
