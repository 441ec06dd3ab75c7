package fault

import (
	"syscall"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/internal/testdb/spannertest"
	"holdfast/test/binary"
)

// Two servers share a database, and each owner has clients at both. One of them is killed or
// stopped, and restarted while the other continues.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	onEach(t, map[engine]func(*testing.T){onPostgres: twoServersOnPostgres, onSpanner: twoServersOnSpanner})
}

func twoServersOnPostgres(t *testing.T) {
	t.Helper()
	db := testdb.PostgresDatabase(t)
	o := newOutage(t, db, db)
	o.second = o.serve()
	o.rounds(2, func(round int) fault {
		victim := []**binary.Server{&o.server, &o.second}[round%2]
		end := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[(round+round/2)%2]
		var fresh *binary.Server
		return fault{inject: func() {
			(*victim).Signal(end)
			o.await(o.load.after(10)) // of the other
			<-(*victim).Ended
			fresh = o.serve()
			o.await(o.load.after(10))
		}, recover: func() {
			*victim = fresh
			o.recovered()
		}, deadly: true}
	})
	o.end()
}

func twoServersOnSpanner(t *testing.T) {
	t.Helper()
	testdb.SoakOnly(t, "the emulator is slow")
	emulator, database := spannertest.Name(t)
	h := newSpanner(t, emulator, database)
	h.server, h.second = h.serve(), h.serve()
	h.rounds(2, func(round int) fault {
		victim := []**binary.Server{&h.server, &h.second}[round%2]
		other := []*binary.Server{h.second, h.server}[round%2]
		return fault{inject: func() {
			(*victim).Kill()
			h.await(h.load.after(10)) // of the other
		}, recover: func() {
			*victim = h.serve()
			h.unblocked(other)
		}, deadly: true}
	})
}
