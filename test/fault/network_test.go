package fault

import (
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
		return fault{strike: func() {
			switch round % 4 {
			case 0: // what was sent arrives late
				n.silence()
				o.hold(round, choose)
			case 1:
				n.silence()
				o.hold(round, choose)
				n.cut()
			case 2:
				n.slow(time.Duration(choose.IntN(20)) * time.Millisecond)
				o.await(o.load.after(10))
				n.cut()
				o.hold(round, choose)
			case 3:
				for range 1 + choose.IntN(5) {
					pause(nil, time.Duration(choose.IntN(20))*time.Millisecond)
					n.cut()
				}
			}
			n.heal()
		}, recover: o.recovered}
	})
	o.end()
}

// A network that has forgotten the connections is found out by the statements
// that nobody answers; new connections then take the place of the old.
func TestForgottenConnections(t *testing.T) {
	t.Parallel()
	db := testdb.PostgresDatabase(t)
	n := newNetwork(t, db)
	o := newOutage(t, db, n.url)
	o.rounds(2, func(int) fault {
		return fault{strike: func() {
			n.forget()
			pause(nil, dbPatience)
		}, recover: func() {
			start := time.Now()
			o.server.Await("/readyz", http.StatusOK)
			if took := time.Since(start); took > o.bound {
				t.Errorf("ready after %v", took)
			}
			n.heal() // so that the database hears of the ends
			o.recovered()
		}}
	})
	o.end()
}
