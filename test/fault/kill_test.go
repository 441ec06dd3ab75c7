package fault

import (
	"net/http"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/internal/testdb/spannertest"
	"holdfast/test/fault/harness"
)

// TestKill kills and restarts the server or its database.
func TestKill(t *testing.T) {
	t.Parallel()
	harness.OnEach(t, map[harness.Engine]func(*testing.T){harness.OnSQLite: killOnSQLite, harness.OnPostgres: killOnPostgres, harness.OnSpanner: killOnSpanner})
}

func killOnSQLite(t *testing.T) {
	t.Helper()
	h := newHarness(t, testdb.SQLite(t))
	h.Server = h.Serve()
	h.Rounds(3, func(int) harness.Fault {
		return harness.Fault{Inject: h.Server.Kill, Recover: func() { h.Server = h.Serve() }, Deadly: true}
	})
}

// killOnPostgres kills the server and the database in turn. A killed server leaves transactions open in the database;
// a killed database ends the server's transactions.
func killOnPostgres(t *testing.T) {
	t.Helper()
	db := testdb.DurablePostgres(t)
	h := newHarness(t, t.TempDir(), servicesOn(db.URL())...)
	h.Server = h.Serve()
	server := harness.Fault{Inject: func() { h.Server.Kill() }, Recover: func() {
		harness.Abandoned(t, db.URL())
		h.Server = h.Serve()
	}, Deadly: true}
	database := harness.Fault{Inject: func() { harness.Must(t, db.Kill()) }, Recover: func() {
		harness.Must(t, db.Start())
		h.Server.Await("/readyz", http.StatusOK)
	}}
	h.Rounds(2, func(round int) harness.Fault { return []harness.Fault{server, database}[round%2] })
}

// killOnSpanner kills a server. Its open transaction must soon stop blocking others.
func killOnSpanner(t *testing.T) {
	t.Helper()
	testdb.SoakOnly(t, "the emulator is slow")
	emulator, database := spannertest.Name(t)
	h := newSpanner(t, emulator, database)
	h.Server = h.Serve()
	h.Rounds(2, func(int) harness.Fault {
		return harness.Fault{Inject: h.Server.Kill, Recover: func() {
			h.Server = h.Serve()
			unblocked(h, h.Server)
		}, Deadly: true}
	})
}
