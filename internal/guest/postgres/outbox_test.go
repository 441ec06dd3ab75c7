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
	"holdfast/internal/guest/telemetry"
	"holdfast/internal/outbox"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

type collect struct{ names []string }

func (c *collect) Publish(_ context.Context, events []outbox.Event) error {
	for _, e := range events {
		c.names = append(c.names, e.Name)
	}
	return nil
}

// TestLateCommitIsPublished checks that an event is published although its position is lower than that of a published event. Its
// transaction began first and committed last.
func TestLateCommitIsPublished(t *testing.T) {
	t.Parallel()
	db := opened.Postgres(t, pgdb.Options{URL: testdb.PostgresDatabase(t)}, postgres.Migrations)
	store, sink := postgres.New(db, nil), &collect{}
	relay := outbox.NewRelay(outbox.Options{Box: store.Outbox(), Sink: sink, Clock: clock.System})
	late, early := guest.NewID(guest.EventPrefix, time.Now()), guest.NewID(guest.EventPrefix, time.Now())
	session := guest.NewID(guest.SessionPrefix, time.Now())
	appended, commit, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() { // a slow commit
		done <- db.Tx(context.WithoutCancel(t.Context()), "test", func(tx *pgdb.Tx) error {
			_, err := tx.Exec(takeTurn, string(session))
			if err == nil {
				_, err = tx.Exec(pgdb.Statement{Name: "test", SQL: `INSERT INTO bff_consumer.outbox
					(id, topic, ordering_key, subject, payload, headers, retention_class) VALUES ($1, 'test.v1', $2, 'a', '{}', '{}', 'operational')`}, string(late), string(session))
			}
			close(appended)
			<-commit
			return err
		})
	}()
	<-appended
	_, err := store.Record(t.Context(), telemetry.Record{
		Mutation: guest.Mutation{Session: guest.NewID(guest.SessionPrefix, time.Now()), Key: "a"},
		Events:   []guest.Event{{ID: early, Type: "test.v1", Subject: "a", Retention: guest.Operational, Payload: []byte(`{}`)}},
	})
	if err != nil {
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
	pass(early, late)
}
