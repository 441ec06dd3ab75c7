package fault

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"holdfast/internal/testdb"
)

// The network between the server and its database goes silent and comes back,
// with what was sent meanwhile or without; it is slow; it resets connections
// at any moment; it forgets those that there are.
func TestNetwork(t *testing.T) {
	t.Parallel()
	db := testdb.PostgresDatabase(t)
	n := newNetwork(t, db)
	o := newOutage(t, db, n.url)
	o.rounds(20, func(round int) fault {
		choose := o.choice(round)
		f := fault{strike: func() { n.strike(o.harness, round, choose) }, recover: o.recovered}
		if round%20 == 19 {
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

// strike breaks the network as one does that comes back.
func (n *network) strike(h *harness, round int, choose *rand.Rand) {
	switch round % 4 {
	case 0: // what was sent arrives late
		n.silence()
		h.hold(round, choose)
	case 1:
		n.silence()
		h.hold(round, choose)
		n.cut()
	case 2:
		n.slow(time.Duration(choose.IntN(20)) * time.Millisecond)
		h.await(h.load.after(10))
		n.cut()
		h.hold(round, choose)
	case 3:
		for range 1 + choose.IntN(5) {
			pause(nil, time.Duration(choose.IntN(20))*time.Millisecond)
			n.cut()
		}
	}
	n.heal()
}
