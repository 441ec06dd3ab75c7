package fault

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/testdb/spannertest"
)

// The network between the server and its database drops packets and recovers, with or without what
// was sent meanwhile; it is slow; it resets connections; it forgets existing connections.
func TestNetwork(t *testing.T) {
	t.Parallel()
	onEach(t, map[engine]func(*testing.T){onPostgres: networkToPostgres, onSpanner: networkToSpanner})
}

func networkToPostgres(t *testing.T) {
	t.Helper()
	db := testdb.PostgresDatabase(t)
	n := newNetwork(t, db)
	o := newOutage(t, db, n.url)
	o.rounds(5, func(round int) fault {
		choose := o.choice(round)
		f := fault{inject: func() { n.inject(o.harness, round, choose) }, recover: o.recovered}
		if round%20 == 4 {
			// Statements without an answer reveal the fault. New connections then replace the old
			// ones.
			f = fault{inject: func() {
				n.forget()
				pause(o.load.refused, o.bound)
			}, recover: func() {
				start := time.Now()
				o.server.Await("/readyz", http.StatusOK)
				if took := time.Since(start); took > o.bound {
					t.Errorf("ready after %v", took)
				}
				n.heal() // so that the database sees that the connections were closed
				o.recovered()
			}}
		}
		return f
	})
	o.end()
}

func networkToSpanner(t *testing.T) {
	t.Helper()
	testdb.SoakOnly(t, "the emulator is slow")
	emulator, database := spannertest.Name(t)
	n := networkTo(t, "tcp", emulator)
	h := patientSpanner(t, n.listener.Addr().String(), database)
	h.rounds(4, func(round int) fault {
		choose := h.choice(round)
		return fault{inject: func() { n.inject(h, round, choose) }, recover: func() {
			h.server.Await("/readyz", http.StatusOK)
			h.unblocked(h.server)
		}}
	})
	h.end()
}

// inject breaks the network in a way that recovers.
func (n *network) inject(h *harness, round int, choose *rand.Rand) {
	switch round % 4 {
	case 0: // what was sent arrives late
		n.silence()
		h.hold(round, 4, choose)
	case 1:
		n.silence()
		h.hold(round, 4, choose)
		n.cut()
	case 2:
		n.slow(time.Duration(choose.IntN(20)) * time.Millisecond)
		h.await(h.load.after(10))
		n.cut()
		h.hold(round, 4, choose)
	case 3:
		for range 1 + choose.IntN(5) {
			pause(nil, time.Duration(choose.IntN(20))*time.Millisecond)
			n.cut()
		}
	}
	n.heal()
}
