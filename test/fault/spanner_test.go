package fault

import (
	"net/http"
	"testing"
	"time"

	"holdfast/test/binary"
)

// newSpanner is a harness on a database in an emulator, which has one
// transaction at a time and reads whole tables: fewer write less.
func newSpanner(t *testing.T, emulator, database string, vars ...string) *harness {
	t.Helper()
	h := harnessOf(t, withSpanner(), true, t.TempDir(), append(inSpanner(emulator, database), vars...)...)
	h.enough = 20
	return h
}

// abandonment is how long a transaction of a server that is gone may be in the
// way. Spanner aborts one that is idle for 10 s; the emulator one that is in the
// way of others, when they have asked a few times.
const abandonment = 10 * time.Second

// unblocked returns when a write is done, which comes after all that a server
// began that is gone: there is one transaction at a time.
func (h *harness) unblocked(s *binary.Server) {
	h.t.Helper()
	for _, w := range h.workloads {
		start := time.Now()
		a, err := w.probe(h, s)
		took := time.Since(start)
		if err != nil || a.Status >= http.StatusBadRequest || took > abandonment {
			h.t.Fatalf("a write after the end of a server: %d %s %v after %v", a.Status, a.Body, err, took)
		}
	}
}

// patientSpanner runs a server that waits a while for the emulator, and no
// longer.
func patientSpanner(t *testing.T, emulator, database string) *harness {
	t.Helper()
	const patience = 8 * time.Second // writes wait for each other, on a busy machine for seconds
	h := newSpanner(t, emulator, database,
		timeouts(withSpanner(), patience)...)
	// A wait for one of the transactions, one for the emulator's only one, one
	// for its answer; and the machine may be busy.
	h.bound = 3*patience + 5*time.Second
	h.server = h.serve()
	return h
}
