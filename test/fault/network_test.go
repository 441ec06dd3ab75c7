package fault

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/testdb/spannertest"
)

// The network between the server and its database goes silent and comes back,
// with what was sent meanwhile or without; it is slow; it resets connections
// at any moment; it forgets those that there are.
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
		f := fault{strike: func() { n.strike(o.harness, round, choose) }, recover: o.recovered}
		if round%20 == 4 {
			// It is found out by the statements that nobody answers. New
			// connections then take the place of the old.
			f = fault{strike: func() {
				n.forget()
				pause(o.load.refused, o.bound)
			}, recover: func() {
				start := time.Now()
				o.server.Await("/readyz", http.StatusOK)
				if took := time.Since(start); took > o.bound {
					t.Errorf("ready after %v", took)
				}
				n.heal() // so that the database hears of the ends
				o.recovered()
			}}
		}
		return f
	})
	o.end()
}

func networkToSpanner(t *testing.T) {
	t.Helper()
	emulator, database := spannertest.Name(t)
	n := networkTo(t, "tcp", emulator)
	h := patientSpanner(t, n.listener.Addr().String(), database)
	h.rounds(4, func(round int) fault {
		choose := h.choice(round)
		return fault{strike: func() { n.strike(h, round, choose) }, recover: func() {
			h.server.Await("/readyz", http.StatusOK)
			h.unblocked(h.server)
		}}
	})
	h.end()
}

// strike breaks the network as one does that comes back.
func (n *network) strike(h *harness, round int, choose *rand.Rand) {
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
