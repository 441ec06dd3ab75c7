package fault

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/testdb/spannertest"
	"holdfast/test/fault/harness"
)

// TestNetwork breaks the network between the server and its database: it drops packets and recovers, with or without
// the data sent in the meantime; it slows down; it resets connections; or it forgets existing connections.
func TestNetwork(t *testing.T) {
	t.Parallel()
	harness.OnEach(t, map[harness.Engine]func(*testing.T){harness.OnPostgres: networkToPostgres, harness.OnSpanner: networkToSpanner})
}

func networkToPostgres(t *testing.T) {
	t.Helper()
	db := testdb.PostgresDatabase(t)
	n := harness.NewNetwork(t, db)
	o := newOutage(t, db, n.URL)
	o.Rounds(5, func(round int) harness.Fault {
		choose := o.Choice(round)
		f := harness.Fault{Inject: func() { breakNetwork(n, o.Harness, round, choose) }, Recover: o.recovered}
		if round%20 == 4 {
			// Statement timeouts reveal the fault. New connections then replace the old connections.
			f = harness.Fault{Inject: func() {
				n.Forget()
				harness.Pause(o.Load.Refused, o.Bound)
			}, Recover: func() {
				start := time.Now()
				o.Server.Await("/readyz", http.StatusOK)
				if took := time.Since(start); took > o.Bound {
					t.Errorf("ready after %v", took)
				}
				n.Heal() // so that the database sees the closed connections
				o.recovered()
			}}
		}
		return f
	})
	o.End()
}

func networkToSpanner(t *testing.T) {
	t.Helper()
	testdb.SoakOnly(t, "the emulator is slow")
	emulator, database := spannertest.Name(t)
	n := harness.NetworkTo(t, "tcp", emulator)
	h := patientSpanner(t, n.Listener.Addr().String(), database)
	h.Rounds(4, func(round int) harness.Fault {
		choose := h.Choice(round)
		return harness.Fault{Inject: func() { breakNetwork(n, h, round, choose) }, Recover: func() {
			h.Server.Await("/readyz", http.StatusOK)
			unblocked(h, h.Server)
		}}
	})
	h.End()
}

func breakNetwork(n *harness.Network, h *harness.Harness, round int, choose *rand.Rand) {
	switch round % 4 {
	case 0: // the data arrives late
		n.Silence()
		h.Hold(round, 4, choose)
	case 1:
		n.Silence()
		h.Hold(round, 4, choose)
		n.Cut()
	case 2:
		n.Slow(time.Duration(choose.IntN(20)) * time.Millisecond)
		h.Await(h.Load.After(10))
		n.Cut()
		h.Hold(round, 4, choose)
	case 3:
		for range 1 + choose.IntN(5) {
			harness.Pause(nil, time.Duration(choose.IntN(20))*time.Millisecond)
			n.Cut()
		}
	}
	n.Heal()
}
