package sqlite_test

import (
	"testing"
	"time"

	zombiezen "zombiezen.com/go/sqlite"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/guest"
	"holdfast/internal/guest/sqlite"
	"holdfast/internal/guest/storetest"
	"holdfast/internal/suite"
	"holdfast/internal/testdb/opened"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness { return harness(t, nil) })
}

func harness(t testing.TB, fault func(string) error) storetest.Harness {
	t.Helper()
	db := opened.SQLite(t, sqlitedb.Options{Fault: fault}, sqlite.Migrations)
	return storetest.Harness{Store: sqlite.New(db, clock.System, nil), Faulty: harness, Events: func(t suite.TB, session guest.ID) (all []guest.Event) {
		t.Helper()
		err := db.Read(t.Context(), "events", func(c *zombiezen.Conn) (err error) {
			all, err = sqlitedb.QueryAll(c, `SELECT id, topic, subject, retention_class, payload, created_at FROM bff_consumer_outbox
				WHERE ordering_key = ? ORDER BY position`, func(r *zombiezen.Stmt) guest.Event {
				return guest.Event{
					ID: guest.ID(r.ColumnText(0)), Type: r.ColumnText(1), Subject: r.ColumnText(2), Retention: r.ColumnText(3),
					Payload: []byte(r.ColumnText(4)), At: time.UnixMicro(r.ColumnInt64(5)).UTC(),
				}
			}, string(session))
			return err
		})
		suite.Must(t, "events", err)
		return all
	}}
}

// TestPing: the store says what is missing, and that nothing is.
func TestPing(t *testing.T) {
	t.Parallel()
	db := opened.SQLite(t, sqlitedb.Options{}, nil)
	opened.WantPing(t, db, sqlite.Migrations, sqlite.New(db, clock.System, nil).Ping)
}
