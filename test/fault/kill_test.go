package fault

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/testdb"
	"holdfast/internal/testdb/spannertest"
)

// A server is killed, or its database is, and comes back.
func TestKill(t *testing.T) {
	t.Parallel()
	onEach(t, map[engine]func(*testing.T){onSQLite: killOnSQLite, onPostgres: killOnPostgres, onSpanner: killOnSpanner})
}

// killOnSQLite: a kill -9 takes away what the server had in memory and not yet in a file.
func killOnSQLite(t *testing.T) {
	t.Helper()
	h := newHarness(t, testdb.SQLite(t))
	h.server = h.serve()
	h.rounds(5, func(int) fault {
		return fault{strike: h.server.Kill, recover: func() { h.server = h.serve() }, deadly: true}
	})
}

// killOnPostgres: the server and the database are killed in turns: one leaves transactions
// behind at the other, the other takes them from it.
func killOnPostgres(t *testing.T) {
	t.Helper()
	db := testdb.DurablePostgres(t)
	h := newHarness(t, t.TempDir(), servicesOn(db.URL())...)
	h.server = h.serve()
	server := fault{strike: func() { h.server.Kill() }, recover: func() {
		abandoned(t, db.URL())
		h.server = h.serve()
	}, deadly: true}
	database := fault{strike: func() { must(t, db.Kill()) }, recover: func() {
		must(t, db.Start())
		h.server.Await("/readyz", http.StatusOK)
	}}
	h.rounds(4, func(round int) fault { return []fault{server, database}[round%2] })
}

// killOnSpanner: a killed server leaves a transaction behind at the database, which is in
// nobody's way for long.
func killOnSpanner(t *testing.T) {
	t.Helper()
	emulator, database := spannertest.Name(t)
	h := newSpanner(t, emulator, database)
	h.server = h.serve()
	h.rounds(2, func(int) fault {
		return fault{strike: h.server.Kill, recover: func() {
			h.server = h.serve()
			h.unblocked(h.server)
		}, deadly: true}
	})
}

// abandoned returns when the database has dealt with what a dead server asked
// of it: a statement that it has begun it also ends, and commits.
func abandoned(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	must(t, err)
	defer func() { must(t, conn.Close(context.WithoutCancel(ctx))) }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var n int
		must(t, conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&n))
		if n == 0 {
			return
		}
		<-tick.C // the query fails when the time is over
	}
}
