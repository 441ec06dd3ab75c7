package fault

import (
	"errors"
	"net/http"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/testdb/spannertest"
	"holdfast/test/binary"
)

// onSpanner are settings that lead to a database in an emulator.
func onSpanner(emulator, database string) []string {
	return []string{"SPANNER_EMULATOR_HOST=" + emulator, "HOLDFAST_SYNCSTORAGE__DATABASE_URL=spanner://" + database, "HOLDFAST_LOG__ACCESS=false"}
}

// newSpanner is a harness on a database in an emulator, which has one
// transaction at a time and reads whole tables: fewer write less.
func newSpanner(t *testing.T, emulator, database string, vars ...string) *harness {
	t.Helper()
	h := newHarness(t, t.TempDir(), append(onSpanner(emulator, database), vars...)...)
	h.users, h.writers = h.users[:2], h.writers[:2*writersPerUser]
	h.stages, h.enough = true, 20
	return h
}

// A killed server leaves a transaction behind at the database, which is in
// nobody's way for long.
func TestKillOnSpanner(t *testing.T) {
	t.Parallel()
	emulator, database := spannertest.Name(t)
	h := newSpanner(t, emulator, database)
	h.server = h.serve()
	h.rounds(5, func(int) fault {
		return fault{strike: h.server.Kill, recover: func() {
			h.server = h.serve()
			h.unblocked(h.server)
		}, deadly: true}
	})
}

// Two servers share a database, and writers of each user are at both. One dies
// and comes back while the other goes on.
func TestTwoServersOnSpanner(t *testing.T) {
	t.Parallel()
	emulator, database := spannertest.Name(t)
	h := newSpanner(t, emulator, database)
	h.server, h.second = h.serve(), h.serve()
	h.rounds(4, func(round int) fault {
		victim := []**binary.Server{&h.server, &h.second}[round%2]
		other := []*binary.Server{h.second, h.server}[round%2]
		return fault{strike: func() {
			(*victim).Kill()
			h.await(h.load.after(10)) // of the other
		}, recover: func() {
			*victim = h.serve()
			h.unblocked(other)
		}, deadly: true}
	})
}

// abandonment is how long a transaction of a server that is gone may be in the
// way. Spanner aborts one that is idle for 10 s; the emulator one that is in the
// way of others, when they have asked a few times.
const abandonment = 10 * time.Second

// unblocked returns when a write is done, which comes after all that a server
// began that is gone: there is one transaction at a time.
func (h *harness) unblocked(s *binary.Server) {
	h.t.Helper()
	start := time.Now()
	a, err := newUser(h.t, secret, users+1).sendTo(h, s, http.MethodPut, "/storage/tabs/x", `{"payload":"x"}`)
	took := time.Since(start)
	if err != nil || a.Status != http.StatusOK || took > abandonment {
		h.t.Fatalf("a write after the end of a server: %d %s %v after %v", a.Status, a.Body, err, took)
	}
}

// patientSpanner runs a server that waits a while for the emulator, and no
// longer.
func patientSpanner(t *testing.T, emulator, database string) *harness {
	t.Helper()
	const patience = 8 * time.Second // writes wait for each other, on a busy machine for seconds
	h := newSpanner(t, emulator, database,
		"HOLDFAST_SYNCSTORAGE__DATABASE_POOL_CONNECTION_TIMEOUT="+patience.String(),
		"HOLDFAST_SYNCSTORAGE__DATABASE_STATEMENT_TIMEOUT="+patience.String())
	// A wait for one of the transactions, one for the emulator's only one, one
	// for its answer; and the machine may be busy.
	h.bound = 3*patience + 5*time.Second
	h.server = h.serve()
	return h
}

// The emulator stands still: it answers nobody, and nobody hears that it is
// gone.
func TestFrozenSpanner(t *testing.T) {
	t.Parallel()
	emulator := testdb.OwnSpanner(t)
	h := patientSpanner(t, emulator.Host(), spannertest.NewName())
	signal := func(sig syscall.Signal) {
		if err := syscall.Kill(emulator.PID(), sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Error(err)
		}
	}
	t.Cleanup(func() { signal(syscall.SIGCONT) }) // it cannot be ended otherwise
	h.rounds(5, func(round int) fault {
		choose := h.choice(round)
		return fault{strike: func() {
			signal(syscall.SIGSTOP)
			h.hold(round, choose)
			signal(syscall.SIGCONT)
		}, recover: func() {
			h.server.Await("/readyz", http.StatusOK)
			h.unblocked(h.server)
		}}
	})
	h.end()
}

// The network between the server and the emulator breaks, as in TestNetwork.
func TestNetworkToSpanner(t *testing.T) {
	t.Parallel()
	emulator, database := spannertest.Name(t)
	n := networkTo(t, "tcp", emulator)
	h := patientSpanner(t, n.listener.Addr().String(), database)
	h.rounds(5, func(round int) fault {
		choose := h.choice(round)
		return fault{strike: func() { n.strike(h, round, choose) }, recover: func() {
			h.server.Await("/readyz", http.StatusOK)
			h.unblocked(h.server)
		}}
	})
	h.end()
}
