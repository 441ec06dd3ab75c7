package fault

import (
	"syscall"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/internal/testdb/spannertest"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// TestTwoServers lets two servers share a database. Each owner's clients use both. The test kills or stops a server
// and restarts it while the other continues.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	harness.OnEach(t, map[harness.Engine]func(*testing.T){harness.OnPostgres: twoServersOnPostgres, harness.OnSpanner: twoServersOnSpanner})
}

func twoServersOnPostgres(t *testing.T) {
	t.Helper()
	db := testdb.PostgresDatabase(t)
	o := newOutage(t, db, db)
	o.Second = o.Serve()
	o.Rounds(2, func(round int) harness.Fault {
		victim := []**binary.Server{&o.Server, &o.Second}[round%2]
		end := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[(round+round/2)%2]
		var fresh *binary.Server
		return harness.Fault{Inject: func() {
			(*victim).Signal(end)
			o.Await(o.Load.After(10))
			<-(*victim).Ended
			fresh = o.Serve()
			o.Await(o.Load.After(10))
		}, Recover: func() {
			*victim = fresh
			o.recovered()
		}, Deadly: true}
	})
	o.End()
}

func twoServersOnSpanner(t *testing.T) {
	t.Helper()
	testdb.SoakOnly(t, "the emulator is slow")
	emulator, database := spannertest.Name(t)
	h := newSpanner(t, emulator, database)
	h.Server, h.Second = h.Serve(), h.Serve()
	h.Rounds(2, func(round int) harness.Fault {
		victim := []**binary.Server{&h.Server, &h.Second}[round%2]
		other := []*binary.Server{h.Second, h.Server}[round%2]
		return harness.Fault{Inject: func() {
			(*victim).Kill()
			h.Await(h.Load.After(10))
		}, Recover: func() {
			*victim = h.Serve()
			unblocked(h, other)
		}, Deadly: true}
	})
}
