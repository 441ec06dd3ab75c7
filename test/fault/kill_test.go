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

// A server or its database is killed and restarted.
func TestKill(t *testing.T) {
	t.Parallel()
	onEach(t, map[engine]func(*testing.T){onSQLite: killOnSQLite, onPostgres: killOnPostgres, onSpanner: killOnSpanner})
}

// killOnSQLite kills a server that has data in memory and not yet in a file.
func killOnSQLite(t *testing.T) {
	t.Helper()
	h := newHarness(t, testdb.SQLite(t))
	h.server = h.serve()
	h.rounds(3, func(int) fault {
		return fault{inject: h.server.Kill, recover: func() { h.server = h.serve() }, deadly: true}
	})
}

// killOnPostgres kills the server and the database in turn. A killed server leaves transactions in
// the database; a killed database takes them from the server.
func killOnPostgres(t *testing.T) {
	t.Helper()
	db := testdb.DurablePostgres(t)
	h := newHarness(t, t.TempDir(), servicesOn(db.URL())...)
	h.server = h.serve()
	server := fault{inject: func() { h.server.Kill() }, recover: func() {
		abandoned(t, db.URL())
		h.server = h.serve()
	}, deadly: true}
	database := fault{inject: func() { must(t, db.Kill()) }, recover: func() {
		must(t, db.Start())
		h.server.Await("/readyz", http.StatusOK)
	}}
	h.rounds(2, func(round int) fault { return []fault{server, database}[round%2] })
}

// killOnSpanner kills a server, which leaves a transaction in the database that soon stops
// blocking others.
func killOnSpanner(t *testing.T) {
	t.Helper()
	testdb.SoakOnly(t, "the emulator is slow")
	emulator, database := spannertest.Name(t)
	h := newSpanner(t, emulator, database)
	h.server = h.serve()
	h.rounds(2, func(int) fault {
		return fault{inject: h.server.Kill, recover: func() {
			h.server = h.serve()
			h.unblocked(h.server)
		}, deadly: true}
	})
}

// abandoned returns when the database has finished the statements of a killed server, which it
// completes and commits.
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
		must(t, conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
			AND datname = current_database() AND application_name NOT LIKE 'citus_internal%'`).Scan(&n))
		if n == 0 {
			return
		}
		<-tick.C // the query fails when the time is over
	}
}
