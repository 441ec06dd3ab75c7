package sqlite_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/extstorage/sqlite"
	"holdfast/internal/extstorage/storetest"
	"holdfast/internal/outbox"
)

func TestWake(t *testing.T) {
	t.Parallel()
	waker := outbox.NewWaker()
	s := sqlite.New(open(t, nil), sqlite.Options{Waker: waker, Clock: clock.System})
	events := make(published)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	relay := outbox.NewRelay(outbox.Options{Box: s.Outbox(), Sink: events, Clock: clock.System, Waker: waker, Poll: time.Hour})
	running.Go(func() { relay.Run(ctx) })
	defer running.Wait()
	defer stop()
	storetest.Woken(t, s, events)
}

type published chan [2]string

func (p published) Publish(ctx context.Context, events []outbox.Event) error {
	for _, e := range events {
		select {
		case p <- [2]string{e.Stream, e.Topic}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
