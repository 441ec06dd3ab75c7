//test:unraced the suite on PostgreSQL takes two minutes under the race detector

package postgres_test

import (
	"context"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/guest"
	"holdfast/internal/guest/postgres"
	"holdfast/internal/outbox"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// collect is a sink that stores the names of events.
type collect struct{ names []string }

func (c *collect) Publish(_ context.Context, events []outbox.Event) error {
	for _, e := range events {
		c.names = append(c.names, e.Name)
	}
	return nil
}

// TestF5: an event whose transaction began before that of a published one,
// with a lower position, and committed after it, is published.
func TestF5(t *testing.T) {
	t.Parallel()
	db := opened.Postgres(t, pgdb.Options{URL: testdb.PostgresDatabase(t)}, postgres.Migrations)
	store, sink := postgres.New(db, nil), &collect{}
	relay := outbox.NewRelay(outbox.Options{Box: store.Outbox(), Sink: sink, Clock: clock.System})
	mutate := func(ctx context.Context, id guest.ID, before func()) error {
		session := guest.NewID(guest.SessionPrefix, time.Now())
		_, _, err := store.Mutate(ctx, guest.Mutation{Session: session, Key: "a"}, func(tx guest.Tx) (guest.Answer, error) {
			err := tx.Append(guest.Event{ID: id, Type: "test.v1", Subject: "a", Retention: guest.Operational, Payload: []byte(`{}`), At: tx.Now()})
			before()
			return guest.Answer{Status: 200}, err
		})
		return err
	}
	late, early := guest.NewID(guest.EventPrefix, time.Now()), guest.NewID(guest.EventPrefix, time.Now())
	appended, commit, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- mutate(context.WithoutCancel(t.Context()), late, func() {
			close(appended)
			<-commit
		})
	}()
	<-appended
	if err := mutate(t.Context(), early, func() {}); err != nil {
		t.Fatal(err)
	}
	pass := func(want ...guest.ID) {
		t.Helper()
		if _, err := relay.Pass(t.Context()); err != nil || len(sink.names) != len(want) || sink.names[len(want)-1] != string(want[len(want)-1]) {
			t.Fatalf("published %v, want %v, %v", sink.names, want, err)
		}
	}
	pass(early)
	close(commit)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	pass(early, late)
	pass(early, late) // once
}
