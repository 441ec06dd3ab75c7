package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/extstorage/postgres"
	"holdfast/internal/extstorage/storetest"
	"holdfast/internal/outbox"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

func TestWake(t *testing.T) {
	t.Parallel()
	wake(t, testdb.PostgresDatabase(t))
}

func TestWakeOnCitus(t *testing.T) {
	t.Parallel()
	wake(t, testdb.CitusDatabase(t))
}

func wake(t *testing.T, url string) {
	t.Helper()
	waker := outbox.NewWaker()
	db := opened.Postgres(t, pgdb.Options{URL: url}, postgres.Migrations)
	s := postgres.New(db, postgres.Options{Waker: waker})
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
