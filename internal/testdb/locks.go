package testdb

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Locks makes concurrent writers wait for a lock and releases them together. If an operation decides on data read
// before it had the lock, several writers succeed where only one may.
type Locks struct {
	conn  *pgx.Conn
	watch *pgx.Conn
}

// NewLocks connects to a database.
func NewLocks(t *testing.T, url string) *Locks {
	t.Helper()
	l := &Locks{}
	for _, c := range []**pgx.Conn{&l.conn, &l.watch} {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		// The test's context is canceled before cleanups.
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		*c = conn
	}
	return l
}

// Exec runs a statement on the connection that holds the lock.
func (l *Locks) Exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := l.conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Waiting waits until n sessions of the database wait for a lock.
func (l *Locks) Waiting(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patient(30*time.Second))
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var now int
		err := l.watch.QueryRow(t.Context(), `
			SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&now)
		if err != nil {
			t.Fatal(err)
		}
		if now == n {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d of %d writers wait", now, n)
		}
	}
}

// Race opens a transaction with hold, starts step twice, waits until both wait for a lock, ends the transaction with
// end, and returns both errors.
func (l *Locks) Race(t *testing.T, hold, end string, step func(i int) error) [2]error {
	t.Helper()
	l.Exec(t, `BEGIN`)
	l.Exec(t, hold)
	answers := make(chan error, 2)
	for i := range 2 {
		go func() { answers <- step(i) }()
	}
	l.Waiting(t, 2)
	l.Exec(t, end)
	return [2]error{<-answers, <-answers}
}
